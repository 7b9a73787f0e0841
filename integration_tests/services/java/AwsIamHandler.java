package eos.tests;

import java.io.FileInputStream;
import java.io.IOException;
import java.net.URLDecoder;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.text.SimpleDateFormat;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TimeZone;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * Takes tokens of AWS IAM as Amazon MSK does: URLs that are signed (Signature Version 4) for kafka-cluster:Connect.
 *
 * The file `eos.identities` has a line `key=secret principal` for each identity, and may have `refuse=reason`; it is read
 * for each login. A session token `until-1700000000` is one of credentials that end then. Without lambdas and generics
 * of its own, so that Janino compiles it, too, which needs no JDK.
 */
public class AwsIamHandler implements AuthenticateCallbackHandler {
    private static final String SERVICE = "kafka-cluster";
    private String identities;
    private String region;

    public void configure(Map configs, String mechanism, List entries) {
        identities = System.getProperty("eos.identities");
        region = System.getProperty("eos.region");
    }

    public void close() {
    }

    public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
        for (int i = 0; i < callbacks.length; i++) {
            if (callbacks[i] instanceof OAuthBearerValidatorCallback) {
                OAuthBearerValidatorCallback asked = (OAuthBearerValidatorCallback) callbacks[i];
                try {
                    asked.token(verified(asked.tokenValue()));
                } catch (GeneralSecurityException refused) {
                    asked.error("Access denied: " + refused.getMessage(), null, null);
                } catch (Exception broken) {
                    asked.error("Access denied: no token of AWS IAM", null, null);
                }
            } else if (callbacks[i] instanceof OAuthBearerExtensionsValidatorCallback) {
                // there are none
            } else {
                throw new UnsupportedCallbackException(callbacks[i]);
            }
        }
    }

    private OAuthBearerToken verified(String token) throws Exception {
        Properties known = new Properties();
        FileInputStream file = new FileInputStream(identities);
        known.load(file);
        file.close();
        if (known.getProperty("refuse") != null) {
            throw new GeneralSecurityException(known.getProperty("refuse"));
        }
        String url = new String(Base64.getUrlDecoder().decode(token), "UTF-8");
        String host = "kafka." + region + ".amazonaws.com";
        String begin = "https://" + host + "/?";
        if (!url.startsWith(begin)) {
            throw new GeneralSecurityException("the token is for another region");
        }
        TreeMap signed = new TreeMap();
        String signature = "";
        String[] pairs = url.substring(begin.length()).split("&");
        for (int i = 0; i < pairs.length; i++) {
            String name = pairs[i].substring(0, pairs[i].indexOf('='));
            String value = pairs[i].substring(pairs[i].indexOf('=') + 1);
            if (name.equals("X-Amz-Signature")) {
                signature = value;
            } else if (!name.equals("User-Agent")) {
                signed.put(name, value);
            }
        }
        if (!"kafka-cluster:Connect".equals(text(signed, "Action"))) {
            throw new GeneralSecurityException("the token is for another action");
        }
        String[] scope = text(signed, "X-Amz-Credential").split("/");
        String identity = known.getProperty(scope[0]);
        if (identity == null) {
            throw new GeneralSecurityException("no identity has the key " + scope[0]);
        }
        String date = text(signed, "X-Amz-Date");
        if (!expected(identity.split(" ")[0], date, signed, host).equals(signature)) {
            throw new GeneralSecurityException("the signature is not this identity's");
        }
        SimpleDateFormat form = new SimpleDateFormat("yyyyMMdd'T'HHmmss'Z'");
        form.setTimeZone(TimeZone.getTimeZone("UTC"));
        long begun = form.parse(date).getTime();
        long end = begun + 1000L * Long.parseLong(text(signed, "X-Amz-Expires"));
        String session = text(signed, "X-Amz-Security-Token");
        if (session.startsWith("until-")) {
            end = Math.min(end, 1000L * Long.parseLong(session.substring(6)));
        }
        if (System.currentTimeMillis() > end) {
            throw new GeneralSecurityException("the token has expired");
        }
        return new Token(token, identity.split(" ")[1], begun, end);
    }

    private static String text(TreeMap from, String name) throws IOException {
        Object found = from.get(name);
        return found == null ? "" : URLDecoder.decode((String) found, "UTF-8");
    }

    private String expected(String secret, String date, TreeMap signed, String host) throws Exception {
        StringBuffer query = new StringBuffer();
        Object[] names = signed.keySet().toArray();
        for (int i = 0; i < names.length; i++) {
            query.append(i == 0 ? "" : "&").append(names[i]).append("=").append(signed.get(names[i]));
        }
        String nothing = hex(MessageDigest.getInstance("SHA-256").digest(new byte[0]));
        String request = "GET\n/\n" + query + "\nhost:" + host + "\n\nhost\n" + nothing;
        String day = date.substring(0, 8);
        String scope = day + "/" + region + "/" + SERVICE + "/aws4_request";
        String digest = hex(MessageDigest.getInstance("SHA-256").digest(request.getBytes("UTF-8")));
        byte[] key = hmac(("AWS4" + secret).getBytes("UTF-8"), day);
        key = hmac(hmac(hmac(key, region), SERVICE), "aws4_request");
        return hex(hmac(key, "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + digest));
    }

    private static byte[] hmac(byte[] key, String text) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(text.getBytes("UTF-8"));
    }

    private static String hex(byte[] bytes) {
        StringBuffer found = new StringBuffer();
        for (int i = 0; i < bytes.length; i++) {
            found.append(Character.forDigit((bytes[i] >> 4) & 15, 16)).append(Character.forDigit(bytes[i] & 15, 16));
        }
        return found.toString();
    }

    private static class Token implements OAuthBearerToken {
        private final String value;
        private final String principal;
        private final long begun;
        private final long end;

        Token(String value, String principal, long begun, long end) {
            this.value = value;
            this.principal = principal;
            this.begun = begun;
            this.end = end;
        }

        public String value() {
            return value;
        }

        public Set scope() {
            return Collections.EMPTY_SET;
        }

        public long lifetimeMs() {
            return end;
        }

        public String principalName() {
            return principal;
        }

        public Long startTimeMs() {
            return Long.valueOf(begun);
        }
    }
}
