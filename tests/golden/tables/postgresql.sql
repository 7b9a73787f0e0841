CREATE TABLE IF NOT EXISTS eos_claim (
	pipeline VARCHAR(255) NOT NULL, 
	sink VARCHAR(12) NOT NULL, 
	incarnation VARCHAR(20) NOT NULL, 
	epoch BIGINT NOT NULL, 
	PRIMARY KEY (pipeline, sink)
);
COMMENT ON TABLE eos_claim IS 'eos_format 1';
CREATE TABLE IF NOT EXISTS eos_slot (
	incarnation VARCHAR(20) NOT NULL, 
	sink VARCHAR(12) NOT NULL, 
	slot INTEGER NOT NULL, 
	checkpoint_id BIGINT NOT NULL, 
	PRIMARY KEY (incarnation, sink, slot)
);
COMMENT ON TABLE eos_slot IS 'eos_format 1';
CREATE TABLE IF NOT EXISTS eos_witness (
	incarnation VARCHAR(20) NOT NULL, 
	sink VARCHAR(12) NOT NULL, 
	checkpoint_id BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	attempt INTEGER NOT NULL, 
	task INTEGER NOT NULL, 
	task_attempt BIGINT NOT NULL, 
	row_count BIGINT NOT NULL, 
	written_at TIMESTAMP WITHOUT TIME ZONE NOT NULL, 
	PRIMARY KEY (incarnation, sink, checkpoint_id, epoch, attempt, task, task_attempt)
);
COMMENT ON TABLE eos_witness IS 'eos_format 1';
CREATE TABLE IF NOT EXISTS eos_permit (
	incarnation VARCHAR(20) NOT NULL, 
	epoch BIGINT NOT NULL, 
	checkpoint_id BIGINT NOT NULL, 
	attempt INTEGER NOT NULL, 
	sink VARCHAR(12) NOT NULL, 
	pipeline VARCHAR(255) NOT NULL, 
	PRIMARY KEY (incarnation, epoch, checkpoint_id, attempt, sink)
);
COMMENT ON TABLE eos_permit IS 'eos_format 1';
CREATE TABLE IF NOT EXISTS eos_head (
	pipeline VARCHAR(255) NOT NULL, 
	version BIGINT NOT NULL, 
	value BYTEA NOT NULL, 
	PRIMARY KEY (pipeline)
);
COMMENT ON TABLE eos_head IS 'eos_format 1';
CREATE TABLE IF NOT EXISTS eos_record (
	pipeline VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	content BYTEA NOT NULL, 
	PRIMARY KEY (pipeline, name)
);
COMMENT ON TABLE eos_record IS 'eos_format 1';
CREATE TABLE IF NOT EXISTS eos_request (
	pipeline VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	content BYTEA NOT NULL, 
	PRIMARY KEY (pipeline, name)
);
COMMENT ON TABLE eos_request IS 'eos_format 1';
