CREATE TABLE IF NOT EXISTS eos_claim (
	pipeline VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, 
	sink VARCHAR(12) NOT NULL, 
	incarnation VARCHAR(20) NOT NULL, 
	epoch BIGINT NOT NULL, 
	PRIMARY KEY (pipeline, sink)
)ENGINE=InnoDB CHARSET=ascii COLLATE ascii_bin;
CREATE TABLE IF NOT EXISTS eos_slot (
	incarnation VARCHAR(20) NOT NULL, 
	sink VARCHAR(12) NOT NULL, 
	slot INTEGER NOT NULL, 
	checkpoint_id BIGINT NOT NULL, 
	PRIMARY KEY (incarnation, sink, slot)
)ENGINE=InnoDB CHARSET=ascii COLLATE ascii_bin;
CREATE TABLE IF NOT EXISTS eos_witness (
	incarnation VARCHAR(20) NOT NULL, 
	sink VARCHAR(12) NOT NULL, 
	checkpoint_id BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	attempt INTEGER NOT NULL, 
	task INTEGER NOT NULL, 
	task_attempt BIGINT NOT NULL, 
	row_count BIGINT NOT NULL, 
	written_at DATETIME(6) NOT NULL, 
	PRIMARY KEY (incarnation, sink, checkpoint_id, epoch, attempt, task, task_attempt)
)ENGINE=InnoDB CHARSET=ascii COLLATE ascii_bin;
CREATE TABLE IF NOT EXISTS eos_permit (
	incarnation VARCHAR(20) NOT NULL, 
	epoch BIGINT NOT NULL, 
	checkpoint_id BIGINT NOT NULL, 
	attempt INTEGER NOT NULL, 
	sink VARCHAR(12) NOT NULL, 
	pipeline VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, 
	PRIMARY KEY (incarnation, epoch, checkpoint_id, attempt, sink)
)ENGINE=InnoDB CHARSET=ascii COLLATE ascii_bin;
CREATE TABLE IF NOT EXISTS eos_head (
	pipeline VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, 
	version BIGINT NOT NULL, 
	value LONGBLOB NOT NULL, 
	PRIMARY KEY (pipeline)
)ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS eos_record (
	pipeline VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, 
	name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, 
	content LONGBLOB NOT NULL, 
	PRIMARY KEY (pipeline, name)
)ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS eos_request (
	pipeline VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, 
	name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, 
	content LONGBLOB NOT NULL, 
	PRIMARY KEY (pipeline, name)
)ENGINE=InnoDB;
