zae-limiter entity set-limits key-2 --resource gpt-4 --limit rpm:100,rpd:1000@day
zae-limiter acquire key-2 gpt-4 --consume rpd=10
