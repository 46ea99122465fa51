"""What is made of sources before they are packed: the rows of views, and tables to join them with."""
