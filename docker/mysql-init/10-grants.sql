-- What the user of a pipeline needs; the official image has created `eos` by now.
-- The tests create and drop databases of their own, all named eos_<something>.
GRANT ALL ON `eos\_%`.* TO 'eos'@'%';
-- To list and roll back what a killed run left prepared.
GRANT XA_RECOVER_ADMIN ON *.* TO 'eos'@'%';
