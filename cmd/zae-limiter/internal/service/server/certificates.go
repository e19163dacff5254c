package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
)

// Certificates are the files of TLS.
type Certificates struct {
	Cert, Key string // the certificate of the service, with those that lead to its authority; and its key
	// ClientCA has the authorities of callers; "" lets callers in without a certificate.
	ClientCA string
}

// Source reads the files.
func (c *Certificates) Source() hot.Source[*tls.Config] {
	names := []string{c.Cert, c.Key}
	if c.ClientCA != "" {
		names = append(names, c.ClientCA)
	}
	return hot.Source[*tls.Config]{Read: func() (hot.Files, error) { return hot.ReadFiles(names...) }, Parse: c.parse}
}

// parse makes what a connection uses.
func (c *Certificates) parse(files hot.Files) (*tls.Config, error) {
	own, err := tls.X509KeyPair(files[c.Cert], files[c.Key])
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", c.Cert, c.Key, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.ClientCA != "" {
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !config.ClientCAs.AppendCertsFromPEM(files[c.ClientCA]) {
			return nil, fmt.Errorf("%s has no certificate of an authority in PEM", c.ClientCA)
		}
	}
	return config, nil
}

// Latest is the configuration of a server whose next connections use what the files say then.
func Latest(v *hot.Value[*tls.Config]) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return v.Get(), nil },
	}
}
