package cli_test

import (
	"crypto/x509"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The program has the authorities of Mozilla for machines that have none: the one of AWS is among them. Authorities can
// be set once only.
func TestAuthoritiesAreBuiltIn(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("the program has no authorities")
		}
	}()
	for root := range bundle.Roots() {
		c, err := x509.ParseCertificate(root.Certificate)
		if err == nil && c.Subject.CommonName == "Amazon Root CA 1" {
			x509.SetFallbackRoots(x509.NewCertPool())
			return
		}
	}
	t.Fatal("the authority of AWS is missing")
}
