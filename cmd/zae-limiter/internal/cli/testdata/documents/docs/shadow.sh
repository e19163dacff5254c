zae-limiter table create -n zae-limiter
