package store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// RedisAddress names a Redis, and has the login for it.
type RedisAddress struct {
	Form           string   // "": one server; "unix": one, by its socket; "sentinel"; "cluster"
	Hosts          []string // "host:port" of the server, of Sentinels or of nodes of a Cluster; or the path of a socket
	TLS            bool     // of Sentinels, too
	CA             string   // with TLS, a PEM file of who may have signed the server's certificate; "": those of the system
	User, Password string   // "": none
	DB             int      // not in a Cluster
	Master         string   // the name that Sentinels know the server by

	SentinelUser, SentinelPassword string
}

// timeout bounds connecting and each answer of a server.
const timeout = time.Second

// client makes the client. Nothing is asked of a server yet.
func (a *RedisAddress) client() (redis.UniversalClient, error) {
	var secure *tls.Config
	if a.TLS {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
		if a.CA != "" {
			text, err := os.ReadFile(a.CA)
			if err != nil {
				return nil, fmt.Errorf("reading the ca of the store's URL: %w", err)
			}
			secure.RootCAs = x509.NewCertPool()
			if !secure.RootCAs.AppendCertsFromPEM(text) {
				return nil, errors.New("the ca of the store's URL has no certificate in it; it is a PEM file")
			}
		}
	}
	o := &redis.UniversalOptions{
		Addrs: a.Hosts, MasterName: a.Master, SentinelUsername: a.SentinelUser, SentinelPassword: a.SentinelPassword,
		Username: a.User, Password: a.Password, DB: a.DB, TLSConfig: secure,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, ContextTimeoutEnabled: true,
		MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	switch a.Form {
	case "cluster":
		return redis.NewClusterClient(o.Cluster()), nil
	case "sentinel":
		return redis.NewFailoverClient(o.Failover()), nil
	}
	single := o.Simple()
	if a.Form == "unix" {
		single.Network = "unix"
	}
	return redis.NewClient(single), nil
}
