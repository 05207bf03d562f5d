package store

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/abide-proxy/abide/internal/background"
	"github.com/abide-proxy/abide/policy"
)

// timeout bounds connecting and each answer of a server.
const timeout = time.Second

// masterFor bounds how long a connection to a master is used before the Sentinels are asked again who it is.
// A server that is no master any more ends its connections, unless the other servers cannot reach it.
const masterFor = 10 * time.Second

// clientOf makes the client. Nothing is asked of a server yet.
func clientOf(a *policy.Store) (redis.UniversalClient, error) {
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
		Addrs: a.Hosts, Username: a.User, Password: a.Password.Reveal(), DB: a.DB, Dialer: boundedDialer(secure),
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, ContextTimeoutEnabled: true,
		MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, Protocol: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if a.Form() == "cluster" {
		return redis.NewClusterClient(o.Cluster()), nil
	}
	single := o.Simple()
	switch a.Form() {
	case "sentinel":
		single.Addr, single.Dialer, single.ConnMaxLifetime = a.Master, masterDialer(a, *single), masterFor
	case "unix":
		single.Network = "unix"
	}
	return redis.NewClient(single), nil
}

// masterDialer dials the master that the first Sentinel to answer names. The library's own client of Sentinels
// reads their answers in goroutines of its own, where a panic would end abide.
func masterDialer(a *policy.Store, o redis.Options) func(ctx context.Context, network, name string) (net.Conn, error) {
	o.Username, o.Password, o.DB = a.SentinelUser, a.SentinelPassword.Reveal(), 0
	return func(ctx context.Context, network, name string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		type answer struct {
			master string
			err    error
		}
		answers := make(chan answer, len(a.Hosts))
		for _, host := range a.Hosts {
			o := o
			o.Addr = host
			go func() {
				sentinel := redis.NewSentinelClient(&o)
				defer sentinel.Close()
				master, err := masterOf(ctx, sentinel, name)
				if err != nil {
					err = fmt.Errorf("the Sentinel at %s: %w", host, err)
				}
				answers <- answer{master, err}
			}()
		}
		var wrong []error
		for range a.Hosts {
			said := <-answers
			if said.err == nil {
				return o.Dialer(ctx, network, said.master)
			}
			wrong = append(wrong, said.err)
		}
		return nil, errors.Join(wrong...)
	}
}

// masterOf returns the address of the master that a Sentinel names.
func masterOf(ctx context.Context, sentinel *redis.SentinelClient, name string) (_ string, err error) {
	defer background.Caught(&err)
	at, err := sentinel.GetMasterAddrByName(ctx, name).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", fmt.Errorf("it knows no master %q", name)
	case err != nil:
		return "", err
	case len(at) != 2:
		return "", errInvalidAnswer
	}
	return net.JoinHostPort(at[0], at[1]), nil
}

// Bounds of what a server sends. The client of Redis takes the memory that the head of a text or list
// announces before the content has come.
const (
	maxAnswer = 128 << 20 // bytes that are announced and come until abide asks again
	listBytes = 64        // counted for each element of a list or map, and for the list itself
	maxLine   = 64 << 10  // bytes of a line, such as an error
)

var errAnswerTooLarge = errors.New("the server announces a larger answer than any that abide asks for")

// boundedConn is a connection to a Redis. Its Read fails beyond the bounds.
type boundedConn struct {
	net.Conn
	left atomic.Int64 // bytes until the bound
	line []byte       // what has come of the present line
	skip int          // bytes of a text that are to come, with the line break behind it
}

// boundedSocket is a boundedConn without TLS, of which the client can tell while it is idle whether the server
// has closed it.
type boundedSocket struct {
	*boundedConn
	syscall.Conn
}

func boundedDialer(secure *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := redis.NewDialer(&redis.Options{DialTimeout: timeout, TLSConfig: secure})
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		bounded := &boundedConn{Conn: c}
		if socket, plain := c.(syscall.Conn); plain {
			return boundedSocket{bounded, socket}, nil
		}
		return bounded, nil
	}
}

func (c *boundedConn) Write(p []byte) (int, error) {
	c.left.Store(maxAnswer)
	return c.Conn.Write(p)
}

func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left.Add(-int64(n+c.announced(p[:n]))) < 0 {
		return 0, errAnswerTooLarge
	}
	return n, err
}

// announced returns how much memory the heads of texts and lists announce in the bytes that have come.
func (c *boundedConn) announced(p []byte) (sum int) {
	for len(p) > 0 {
		if n := min(c.skip, len(p)); n > 0 {
			p, c.skip = p[n:], c.skip-n
			continue
		}
		part, rest, whole := bytes.Cut(p, []byte("\n"))
		if len(c.line)+len(part) > maxLine {
			return maxAnswer + 1
		}
		c.line, p = append(c.line, part...), rest
		if !whole {
			break
		}
		if len(c.line) > 1 {
			n, _ := strconv.Atoi(string(bytes.TrimSuffix(c.line[1:], []byte("\r")))) // the client refuses what is no number
			n = min(n, maxAnswer)
			switch c.line[0] {
			case '$', '!', '=':
				if n >= 0 {
					sum, c.skip = sum+n, n+len("\r\n")
				}
			case '*', '~', '>', '%', '|':
				sum += (max(n, 0) + 1) * listBytes
			}
		}
		c.line = c.line[:0]
	}
	return sum
}
