CREATE TABLE IF NOT EXISTS eos_claim (/* eos_format 1 */
	pipeline VARCHAR(255) NOT NULL, 
	sink VARCHAR(12) NOT NULL, 
	incarnation VARCHAR(20) NOT NULL, 
	epoch BIGINT NOT NULL, 
	PRIMARY KEY (pipeline, sink)
);
CREATE TABLE IF NOT EXISTS eos_slot (/* eos_format 1 */
	incarnation VARCHAR(20) NOT NULL, 
	sink VARCHAR(12) NOT NULL, 
	slot INTEGER NOT NULL, 
	checkpoint_id BIGINT NOT NULL, 
	PRIMARY KEY (incarnation, sink, slot)
);
CREATE TABLE IF NOT EXISTS eos_witness (/* eos_format 1 */
	incarnation VARCHAR(20) NOT NULL, 
	sink VARCHAR(12) NOT NULL, 
	checkpoint_id BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	attempt INTEGER NOT NULL, 
	task INTEGER NOT NULL, 
	task_attempt BIGINT NOT NULL, 
	row_count BIGINT NOT NULL, 
	written_at DATETIME NOT NULL, 
	PRIMARY KEY (incarnation, sink, checkpoint_id, epoch, attempt, task, task_attempt)
);
CREATE TABLE IF NOT EXISTS eos_permit (/* eos_format 1 */
	incarnation VARCHAR(20) NOT NULL, 
	epoch BIGINT NOT NULL, 
	checkpoint_id BIGINT NOT NULL, 
	attempt INTEGER NOT NULL, 
	sink VARCHAR(12) NOT NULL, 
	pipeline VARCHAR(255) NOT NULL, 
	PRIMARY KEY (incarnation, epoch, checkpoint_id, attempt, sink)
);
CREATE TABLE IF NOT EXISTS eos_head (/* eos_format 1 */
	pipeline VARCHAR(255) NOT NULL, 
	version BIGINT NOT NULL, 
	value BLOB NOT NULL, 
	PRIMARY KEY (pipeline)
);
CREATE TABLE IF NOT EXISTS eos_record (/* eos_format 1 */
	pipeline VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	content BLOB NOT NULL, 
	PRIMARY KEY (pipeline, name)
);
CREATE TABLE IF NOT EXISTS eos_request (/* eos_format 1 */
	pipeline VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	content BLOB NOT NULL, 
	PRIMARY KEY (pipeline, name)
);
