# Most examples are about a table in use.
for table in zae-limiter limits; do
  zae-limiter table create --table $table --stream
  zae-limiter resource set-defaults gpt-4 --limit rpm:100 --limit tpm:10000 --table $table
done
