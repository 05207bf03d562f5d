package store_test

import (
	"strings"
	"testing"

	"github.com/abide-proxy/abide/store"
)

func TestWhatIsWrongWithAURLIsSaidWithoutQuotingIt(t *testing.T) {
	const secret = "s3cr3t"
	for _, row := range []struct{ url, want string }{
		{"s3cr3t", "://"},
		{"http://:s3cr3t@host", "begins with none of"},
		{"redis+s3cr3t://host", "begins with none of"},
		{"redis://s3cr3t@host", "without a password"},
		{"redis://u:s3cr3t%zz@host", "percent-encoded"},
		{"redis://u:s3cr3t/x@host", "host"},
		{"redis://u:s3cr3t?x@host", "setting"},
		{"redis://:s3cr3t@", "host"},
		{"redis://:s3cr3t@host:0", "host"},
		{"redis://:s3cr3t@a,b", "several hosts"},
		{"redis://:s3cr3t@host/s3cr3t", "db"},
		{"redis://:s3cr3t@host?db=-1", "db"},
		{"redis://:s3cr3t@host?sentinel_password=s3cr3t", "redis+sentinel"},
		{"redis://:s3cr3t@host?ca=x", "rediss"},
		{"rediss://:s3cr3t@host?ca=/dev/null", "no certificate"},
		{"redis+sentinel://:s3cr3t@a,b", "master"},
		{"redis+cluster://:s3cr3t@a,b/1", "path"},
		{"redis+cluster://:s3cr3t@a,b?db=1", "only 0"},
		{"redis+unix://:s3cr3t@", "socket"},
	} {
		s, err := store.NewRedis(row.url, store.RedisOptions{})
		if err == nil {
			s.Close()
			t.Errorf("%s is accepted", row.url)
			continue
		}
		if !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v, want something with %q", row.url, err, row.want)
		}
	}
	if _, err := store.NewRedis("redis://host", store.RedisOptions{Prefix: "{x}"}); err == nil {
		t.Error("a prefix with braces is accepted")
	}
}

func TestURLsThatAreAccepted(t *testing.T) {
	for _, url := range []string{
		"redis://host", "redis://host:1/3", "redis://host?db=3", "rediss://u:p%40%2F@[::1]:6380/", "redis://:p@::1",
		"redis+unix:///run/redis.sock?db=2", "redis+unix://u:p@/run/redis.sock", "REDIS://host",
		"redis+sentinel://u:p@a,b:1,[::1]:2/main?db=1&sentinel_user=x&sentinel_password=y", "rediss+sentinel://a/main",
		"redis+cluster://a,b:7000", "rediss+cluster://u:p@a?db=0",
	} {
		s, err := store.NewRedis(url, store.RedisOptions{})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
