"""The ledger: the SQL that computes its entries (`entries`), and the database triggers that write them (`triggers`)."""
