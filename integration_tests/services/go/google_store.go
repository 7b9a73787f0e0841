// Google Cloud Storage's XML API, on a port of 127.0.0.1: what fake-gcs-server lacks of it.
//
// fake-gcs-server keeps the objects, and compares generations, under one lock. It knows the conditions of its JSON API
// only, and no upload by the XML API, which obstore uses. This program translates the requests, as Google documents
// them (https://cloud.google.com/storage/docs/xml-api/reference-methods). It requires a token that the service
// account of the tests has signed. Requests of the JSON API pass as they are, without a token.
package main

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

const page = 50 // objects of a listing; Google's own are of 1000

type store struct {
	server  *fakestorage.Server
	account *rsa.PublicKey
}

type fault struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
}

type listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name                  string
	Prefix                string
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []object
	CommonPrefixes        []prefix
}

type object struct {
	Key          string
	Generation   int64
	LastModified string
	ETag         string
	Size         int64
}

type prefix struct{ Prefix string }

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: google_store PORT PUBLIC_KEY_FILE")
	}
	text, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		log.Fatal("no PEM in ", os.Args[2])
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		log.Fatal(err)
	}
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], store{server, key.(*rsa.PublicKey)}))
}

func (s store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if bucket == "storage" || bucket == "upload" || bucket == "_internal" {
		s.server.HTTPHandler().ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, "IncompleteBody", err.Error())
	case !s.isSigned(r):
		refuse(w, http.StatusUnauthorized, "AuthenticationRequired", "Authentication required.")
	case s.call(http.MethodGet, "/storage/v1/b/"+url.PathEscape(bucket), nil, nil).Code != http.StatusOK:
		refuse(w, http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist.")
	case name == "" && r.Method == http.MethodGet:
		s.list(w, r, bucket)
	case r.Method == http.MethodPut && r.URL.RawQuery == "":
		s.put(w, r, bucket, name, body)
	case r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodDelete:
		s.pass(w, r, bucket, name)
	default:
		refuse(w, http.StatusNotImplemented, "NotImplemented", r.Method+" "+r.URL.RawQuery)
	}
}

// put creates an object, or replaces the one of the generation that the request names.
func (s store) put(w http.ResponseWriter, r *http.Request, bucket, name string, body []byte) {
	query := url.Values{"uploadType": {"media"}, "name": {name}}
	if expected := r.Header.Get("x-goog-if-generation-match"); expected != "" {
		query.Set("ifGenerationMatch", expected)
	}
	path := "/upload/storage/v1/b/" + url.PathEscape(bucket) + "/o?" + query.Encode()
	answer := s.call(http.MethodPost, path, r.Header, body)
	var created struct{ Etag, Generation string }
	switch {
	case answer.Code == http.StatusPreconditionFailed:
		refuse(w, answer.Code, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")
	case answer.Code != http.StatusOK:
		refuse(w, answer.Code, "InternalError", answer.Body.String())
	case json.Unmarshal(answer.Body.Bytes(), &created) != nil:
		refuse(w, http.StatusInternalServerError, "InternalError", "fake-gcs-server's answer is not JSON")
	default:
		w.Header().Set("ETag", strconv.Quote(created.Etag))
		w.Header().Set("x-goog-generation", created.Generation)
		w.WriteHeader(http.StatusOK)
	}
}

// pass reads or deletes an object.
func (s store) pass(w http.ResponseWriter, r *http.Request, bucket, name string) {
	path := "/b/" + url.PathEscape(bucket) + "/o/" + url.PathEscape(name)
	if r.Method == http.MethodDelete {
		path = "/storage/v1" + path
	} else {
		path = "/download/storage/v1" + path
	}
	answer := s.call(r.Method, path, r.Header, nil)
	switch {
	case answer.Code == http.StatusNotFound:
		refuse(w, answer.Code, "NoSuchKey", "The specified key does not exist.")
	case r.Method == http.MethodDelete && answer.Code == http.StatusOK:
		w.WriteHeader(http.StatusNoContent)
	default:
		for header, values := range answer.Header() {
			w.Header()[header] = values
		}
		w.WriteHeader(answer.Code)
		w.Write(answer.Body.Bytes())
	}
}

func (s store) list(w http.ResponseWriter, r *http.Request, bucket string) {
	query := r.URL.Query()
	options := fakestorage.ListOptions{Prefix: query.Get("prefix"), Delimiter: query.Get("delimiter")}
	found, err := s.server.ListObjectsWithOptionsPaginated(bucket, options)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "InternalError", err.Error())
		return
	}
	after, answer := query.Get("continuation-token"), listing{Name: bucket, Prefix: options.Prefix}
	for _, each := range found.Objects {
		if each.Name <= after {
			continue
		}
		if len(answer.Contents) == page {
			answer.IsTruncated, answer.NextContinuationToken = true, answer.Contents[page-1].Key
			break
		}
		changed := each.Updated.UTC().Format(time.RFC3339Nano)
		entry := object{each.Name, each.Generation, changed, strconv.Quote(each.Etag), each.Size}
		answer.Contents = append(answer.Contents, entry)
	}
	if after == "" {
		for _, each := range found.Prefixes {
			answer.CommonPrefixes = append(answer.CommonPrefixes, prefix{each})
		}
	}
	w.Header().Set("Content-Type", "application/xml")
	xml.NewEncoder(w).Encode(answer)
}

// call sends a request to fake-gcs-server, whole, and returns its whole answer.
func (s store) call(method, path string, header http.Header, body []byte) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, bytes.NewReader(body))
	for _, name := range []string{"Content-Type", "Range"} {
		if value := header.Get(name); value != "" {
			request.Header.Set(name, value)
		}
	}
	answer := httptest.NewRecorder()
	s.server.HTTPHandler().ServeHTTP(answer, request)
	return answer
}

// isSigned returns whether the request has a token that the service account has signed and that has not expired.
func (s store) isSigned(r *http.Request) bool {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if rsa.VerifyPKCS1v15(s.account, crypto.SHA256, sum[:], signature) != nil {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ Exp int64 }
	return err == nil && json.Unmarshal(text, &claims) == nil && time.Now().Unix() < claims.Exp
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	text, _ := xml.Marshal(fault{Code: code, Message: message})
	fmt.Fprintf(w, "%s%s", xml.Header, text)
}
