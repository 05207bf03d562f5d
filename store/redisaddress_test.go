package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/redistest"
)

// addressOf returns the address of a server, for a user who needs no password.
func addressOf(s *redistest.Server) *policy.Store {
	return &policy.Store{Hosts: []string{s.Addr}}
}

// loginAt returns the address of a server, for a user with a password.
func loginAt(s *redistest.Server, user, password string) *policy.Store {
	return &policy.Store{Hosts: []string{s.Addr}, User: user, Password: policy.NewSecret(password)}
}

// pulsing is a Redis that has answered.
func pulsing(ctx context.Context, a *policy.Store, o func() time.Time) (*store.Redis, error) {
	r, err := store.NewRedis(a, o)
	if err != nil {
		return nil, err
	}
	if _, err := r.Pulse(ctx, store.Member{}); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func TestWhatIsWrongWithAnAddressIsSaidWithoutThePassword(t *testing.T) {
	const secret = "s3cr3t"
	host := []string{"host:6379"}
	for _, row := range []struct {
		address *policy.Store
		want    string
	}{
		{&policy.Store{Hosts: host, Password: policy.NewSecret(secret), TLS: true, CA: "/dev/null"}, "no certificate"},
		{&policy.Store{Hosts: host, Password: policy.NewSecret(secret), TLS: true, CA: "/dev/null/x"}, "reading the ca"},
	} {
		s, err := store.NewRedis(row.address, nil)
		if err == nil {
			s.Close()
			t.Errorf("it is accepted, want something with %q", row.want)
			continue
		}
		if !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v, want something with %q", err, row.want)
		}
	}
}

func TestAClientIsMadeForEachFormOfAnAddress(t *testing.T) {
	for _, a := range []policy.Store{
		{Hosts: []string{"host:6379"}, DB: 3},
		{Hosts: []string{"[::1]:6380"}, TLS: true, User: "u", Password: policy.NewSecret("p@/")},
		{Kind: "redis+unix", Hosts: []string{"/run/redis.sock"}, DB: 2},
		{Kind: "redis+sentinel", Hosts: []string{"a:26379", "b:1"}, Master: "main", DB: 1, SentinelUser: "x", SentinelPassword: policy.NewSecret("y")},
		{Kind: "redis+cluster", Hosts: []string{"a:6379", "b:7000"}, TLS: true},
	} {
		s, err := store.NewRedis(&a, nil)
		if err != nil {
			t.Errorf("%+v: %v", a, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
}
