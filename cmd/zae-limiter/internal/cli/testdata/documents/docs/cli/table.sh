zae-limiter table create --table limits-test
