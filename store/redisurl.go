package store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// address is where a Redis is, read from a URL:
//
//	redis://[user:password@]host[:6379][/db]               one server
//	redis+unix://[user:password@]/path/of/socket           one server on this machine
//	redis+sentinel://[user:password@]host[:26379],…/master Sentinels, and the name of the master
//	redis+cluster://[user:password@]host[:6379],…          some nodes of a Cluster
//
// rediss, rediss+sentinel and rediss+cluster are the same over TLS, Sentinels
// included. In user and password what is special in a URL is percent-encoded; for a
// password alone write ":password@". Settings follow a "?": db (not in a Cluster),
// sentinel_user and sentinel_password, and ca, a PEM file of who may have signed the
// server's certificate.
type address struct {
	mode           string // "", unix, sentinel, cluster
	secure         bool
	user, password string
	hosts          []string
	master         string
	db             int
	guard          struct{ user, password string } // of the Sentinels
	ca             string
}

// readAddress never quotes the URL in its errors, for it may hold a password.
func readAddress(text string) (address, error) {
	var a address
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return a, errors.New(`the store's URL has no "://"; write redis://host:6379`)
	}
	kind, mode, _ := strings.Cut(strings.ToLower(scheme), "+")
	a.mode, a.secure = mode, kind == "rediss"
	if (kind != "redis" && kind != "rediss") || !slices.Contains([]string{"", "unix", "sentinel", "cluster"}, mode) {
		return a, errors.New("the store's URL begins with none of redis://, rediss://, redis+unix://, redis+sentinel://, " +
			"rediss+sentinel://, redis+cluster:// and rediss+cluster://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	rest, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, password, both := strings.Cut(rest[:i], ":")
		rest = rest[i+1:]
		if !both {
			return a, errors.New("the store's URL has a user without a password; for a password alone write redis://:PASSWORD@host")
		}
		var err1, err2 error
		a.user, err1 = url.PathUnescape(user)
		a.password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return a, errors.New("the user or the password in the store's URL is not percent-encoded: write %25 for % and %2F for /")
		}
	}
	if err := a.settings(query); err != nil {
		return a, err
	}
	return a, a.places(rest, strings.TrimSuffix(path, "/"))
}

func (a *address) settings(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the settings after the ? of the store's URL are not percent-encoded")
	}
	for name, list := range values {
		value := list[0]
		switch name {
		case "db":
			if err := a.setDB(value); err != nil {
				return err
			}
		case "sentinel_user", "sentinel_password":
			if a.mode != "sentinel" {
				return fmt.Errorf("the store's URL has %s, which is for redis+sentinel:// only", name)
			}
			if name == "sentinel_user" {
				a.guard.user = value
			} else {
				a.guard.password = value
			}
		case "ca":
			if !a.secure {
				return errors.New("the store's URL has ca, which is for TLS only; begin it with rediss")
			}
			a.ca = value
		default:
			// Not even the name is quoted: it may be the rest of a password with a "?".
			return errors.New("the store's URL has a setting that is none of db, sentinel_user, sentinel_password and ca " +
				"(a ? in a password is written %3F)")
		}
	}
	return nil
}

func (a *address) setDB(value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return errors.New("the db in the store's URL is not a number, such as 0")
	}
	if a.mode == "cluster" && n != 0 {
		return errors.New("the store's URL has a db, and a Cluster has only 0")
	}
	a.db = n
	return nil
}

// places reads the hosts, and what the path says of them.
func (a *address) places(hosts, path string) error {
	if a.mode == "unix" {
		if hosts != "" || path == "" {
			return errors.New("the store's URL names no socket; write redis+unix:///path/of/socket")
		}
		a.hosts = []string{"/" + path}
		return nil
	}
	port := "6379"
	if a.mode == "sentinel" {
		port = "26379"
	}
	for one := range strings.SplitSeq(hosts, ",") {
		host, err := hostPort(one, port)
		if err != nil {
			return err
		}
		a.hosts = append(a.hosts, host)
	}
	if a.mode == "" && len(a.hosts) > 1 {
		return errors.New("the store's URL has several hosts; begin it with redis+sentinel:// or redis+cluster:// for that")
	}
	switch {
	case a.mode == "sentinel":
		if path == "" {
			return errors.New("the store's URL does not name the master that the Sentinels watch; write redis+sentinel://host/mymaster")
		}
		a.master = path
	case a.mode == "cluster" && path != "":
		return errors.New("the store's URL has a path, which means nothing in a Cluster")
	case path != "":
		return a.setDB(path)
	}
	return nil
}

func hostPort(text, port string) (string, error) {
	host, given, err := net.SplitHostPort(text)
	if err != nil {
		host, given = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), port
	}
	n, err := strconv.Atoi(given)
	if host == "" || err != nil || n < 1 || n > 65535 || (strings.Contains(host, ":") && net.ParseIP(host) == nil) {
		return "", errors.New("the store's URL has a host that is not host or host:port (an @ or / in a password is written %40 or %2F)")
	}
	return net.JoinHostPort(host, given), nil
}

// timeout is how long a server may take to connect, or to answer, when the caller
// waits that long.
const timeout = time.Second

// client makes the client. Nothing is asked of a server yet.
func (a *address) client(trust *tls.Config) (redis.UniversalClient, error) {
	var secure *tls.Config
	if a.secure {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
		if trust != nil {
			secure = trust.Clone()
		}
		if a.ca != "" {
			text, err := os.ReadFile(a.ca)
			if err != nil {
				return nil, fmt.Errorf("reading the ca of the store's URL: %w", err)
			}
			secure.RootCAs = x509.NewCertPool()
			if !secure.RootCAs.AppendCertsFromPEM(text) {
				return nil, errors.New("the ca of the store's URL has no certificate in it; it is a PEM file")
			}
		}
	}
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch a.mode {
	case "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: a.hosts, Username: a.user, Password: a.password, TLSConfig: secure,
			DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, ContextTimeoutEnabled: true,
			MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, MaintNotificationsConfig: quiet,
		}), nil
	case "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: a.master, SentinelAddrs: a.hosts, SentinelUsername: a.guard.user, SentinelPassword: a.guard.password,
			Username: a.user, Password: a.password, DB: a.db, TLSConfig: secure,
			DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, ContextTimeoutEnabled: true,
			MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		}), nil
	}
	network := "tcp"
	if a.mode == "unix" {
		network = "unix"
	}
	return redis.NewClient(&redis.Options{
		Network: network, Addr: a.hosts[0], Username: a.user, Password: a.password, DB: a.db, TLSConfig: secure,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, ContextTimeoutEnabled: true,
		MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, MaintNotificationsConfig: quiet,
	}), nil
}
