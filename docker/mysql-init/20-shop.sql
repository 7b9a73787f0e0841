-- For the profile `all`.
CREATE DATABASE IF NOT EXISTS eos_shop;
