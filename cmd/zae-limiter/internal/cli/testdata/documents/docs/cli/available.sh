zae-limiter resource set-defaults embeddings --limit tpm:10000
