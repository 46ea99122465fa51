"""DHTJoin's experiments: Euro-Par 2008, section 4, and the extended version, sections 5 and 6."""
