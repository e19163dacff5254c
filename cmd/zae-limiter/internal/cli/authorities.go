package cli

import _ "golang.org/x/crypto/x509roots/fallback" // for machines without certificates of authorities, such as the image (ADR 067)
