zae-limiter resource set-slots gpt-4 --slots inflight:20
zae-limiter resource set-defaults gpt-4 --limit rpm:100
