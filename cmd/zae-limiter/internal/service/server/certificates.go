package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
)

// Certificates are the files of TLS.
type Certificates struct {
	Cert, Key string // the certificate of the service, with those that lead to its authority; and its key
	// ClientCA has the authorities of callers; "" lets callers in without a certificate.
	ClientCA string
}

// Outgoing are the files of TLS of connections that the service makes.
type Outgoing struct {
	// Cert and Key are what the service shows; "" is nothing.
	Cert, Key string
	// CA has the authorities of the server; "" are those of the machine.
	CA string
	// Name is whom the certificate of the server must be of; "" is the host that is called.
	Name string
}

// Source reads the files. There may be none.
func (o *Outgoing) Source() hot.Source[*tls.Config] {
	return hot.Source[*tls.Config]{Read: func() (hot.Files, error) {
		return hot.ReadFiles(slices.DeleteFunc([]string{o.Cert, o.Key, o.CA}, func(name string) bool { return name == "" })...)
	}, Parse: o.parse}
}

// parse makes what the next connection uses.
func (o *Outgoing) parse(files hot.Files) (config *tls.Config, err error) {
	config = &tls.Config{ServerName: o.Name, MinVersion: tls.VersionTLS12}
	if o.Cert != "" {
		if config.Certificates, err = ownOf(files, o.Cert, o.Key); err != nil {
			return nil, err
		}
	}
	if o.CA != "" {
		config.RootCAs, err = authoritiesOf(files, o.CA)
	}
	return config, err
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
	own, err := ownOf(files, c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: own, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.ClientCA != "" {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs, err = authoritiesOf(files, c.ClientCA)
	}
	return config, err
}

// ownOf is what the service shows.
func ownOf(files hot.Files, cert, key string) ([]tls.Certificate, error) {
	own, err := tls.X509KeyPair(files[cert], files[key])
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", cert, key, err)
	}
	return []tls.Certificate{own}, nil
}

// authoritiesOf are those of a file.
func authoritiesOf(files hot.Files, name string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(files[name]) {
		return nil, fmt.Errorf("%s has no certificate of an authority in PEM", name)
	}
	return pool, nil
}

// Latest is the configuration of a server whose next connections use what the files say then.
func Latest(v *hot.Value[*tls.Config]) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return v.Get(), nil },
	}
}
