package ca

import (
	"crypto/tls"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestManyNamesStayWithinTheCache(t *testing.T) {
	const names, kept = 10_000, 500
	var signed atomic.Int64
	c := open(t, "", Options{Cache: kept, OnSign: func() { signed.Add(1) }})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < names; i += 8 {
				if _, err := c.TLSConfig(fmt.Sprintf("n%d.api.test", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if signed.Load() != names || c.Cached() != kept {
		t.Errorf("%d signings, %d certificates kept", signed.Load(), c.Cached())
	}
}

func TestManyFirstAsksForOneNameAreOneSigning(t *testing.T) {
	var signed atomic.Int64
	c := open(t, "", Options{OnSign: func() { signed.Add(1) }})
	configs := make([]*tls.Config, 1000)
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range configs {
		all.Go(func() {
			<-begin
			config, err := c.TLSConfig("api.test")
			if err != nil {
				t.Error(err)
			}
			configs[i] = config
		})
	}
	close(begin)
	all.Wait()
	for _, one := range configs {
		if one != configs[0] {
			t.Fatal("they got different configurations")
		}
	}
	if signed.Load() != 1 {
		t.Errorf("%d signings", signed.Load())
	}
}

func TestFewSignAtATime(t *testing.T) {
	most := int64(max(1, runtime.GOMAXPROCS(0)/2))
	var now, peak atomic.Int64
	c := open(t, "", Options{OnSign: func() {
		n := now.Add(1)
		for seen := peak.Load(); n > seen && !peak.CompareAndSwap(seen, n); seen = peak.Load() {
		}
		for range 100 {
			runtime.Gosched()
		}
		now.Add(-1)
	}})
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() { _, _ = c.TLSConfig(fmt.Sprintf("n%d.test", i)) })
	}
	all.Wait()
	if peak.Load() > most {
		t.Errorf("%d signed at once, of at most %d", peak.Load(), most)
	}
}

func TestALeafIsSignedAnewBeforeItsEnd(t *testing.T) {
	now := time.Now()
	signed := 0
	c := open(t, "", Options{Now: func() time.Time { return now }, OnSign: func() { signed++ }})
	first := leafOf(t, c, "api.test")
	now = first.NotAfter.Add(-leafMargin - time.Minute)
	if leafOf(t, c, "api.test"); signed != 1 {
		t.Fatalf("%d signings a little earlier", signed)
	}
	now = now.Add(2 * time.Minute)
	if second := leafOf(t, c, "api.test"); signed != 2 || !second.NotAfter.After(first.NotAfter) {
		t.Errorf("%d signings, now until %v", signed, second.NotAfter)
	}
}

func TestALeafEndsNoLaterThanItsRoot(t *testing.T) {
	now := time.Now()
	signed := 0
	c := open(t, "", Options{Now: func() time.Time { return now }, OnSign: func() { signed++ }})
	root := rootOf(t, c)
	now = root.NotAfter.Add(-48 * time.Hour)
	if leaf := leafOf(t, c, "api.test"); leaf.NotAfter.After(root.NotAfter) {
		t.Errorf("it ends at %v, the root at %v", leaf.NotAfter, root.NotAfter)
	}
	if leafOf(t, c, "api.test"); signed != 1 {
		t.Errorf("%d signings: a short leaf is not kept", signed)
	}
}

func TestSessionsResumeEvenAfterTheirCertificateWasDropped(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := open(t, "", Options{Cache: 1})
		client := &tls.Config{
			RootCAs: pool(c), ServerName: "api.test", ClientSessionCache: tls.NewLRUClientSessionCache(8),
			MinVersion: version, MaxVersion: version,
		}
		for i, want := range []bool{false, true, true} {
			if i == 2 {
				leafOf(t, c, "other.test") // pushes api.test out
			}
			state, err, _ := handshake(t, c, "api.test", client)
			if err != nil || state.DidResume != want {
				t.Errorf("%s, connection %d: resumed %v, %v", tls.VersionName(version), i, state.DidResume, err)
			}
		}
	}
}

func TestAnotherProcessDoesNotKnowTheTickets(t *testing.T) {
	dir := t.TempDir()
	c, restarted := open(t, dir, Options{}), open(t, dir, Options{})
	client := &tls.Config{RootCAs: pool(c), ServerName: "api.test", ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	if _, err, _ := handshake(t, c, "api.test", client); err != nil {
		t.Fatal(err)
	}
	state, err, _ := handshake(t, restarted, "api.test", client)
	if err != nil || state.DidResume {
		t.Errorf("resumed %v, %v", state.DidResume, err)
	}
}

func TestAClientThatRejectsTheCAIsNoticed(t *testing.T) {
	c, stranger := open(t, "", Options{}), open(t, "", Options{})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		_, ofClient, ofServer := handshake(t, c, "api.test", &tls.Config{
			RootCAs: pool(stranger), ServerName: "api.test", MinVersion: version, MaxVersion: version,
		})
		if ofClient == nil || !Rejected(ofServer) {
			t.Errorf("%s: client %v, server %v", tls.VersionName(version), ofClient, ofServer)
		}
		if !Rejected(fmt.Errorf("shaking hands: %w", ofServer)) {
			t.Error("wrapped it is not noticed")
		}
	}
}

func TestOtherFailuresAreNotTakenForDistrust(t *testing.T) {
	c := open(t, "", Options{})
	_, _, ofServer := handshake(t, c, "api.test", &tls.Config{
		RootCAs: pool(c), ServerName: "api.test", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10,
	})
	for _, err := range []error{nil, io.EOF, ofServer, fmt.Errorf("remote error: tls: unknown certificate authority")} {
		if Rejected(err) {
			t.Errorf("%v is taken for distrust", err)
		}
	}
}

// What a first CONNECT to a name costs beyond the handshake: at most 2 ms.
func BenchmarkAFirstConnect(b *testing.B) {
	c := open(b, "", Options{})
	for i := 0; b.Loop(); i++ {
		if _, err := c.TLSConfig(fmt.Sprintf("n%d.api.test", i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkALaterConnect(b *testing.B) {
	c := open(b, "", Options{})
	for b.Loop() {
		if _, err := c.TLSConfig("api.test"); err != nil {
			b.Fatal(err)
		}
	}
}

// With the handshakes of both sides in it.
func BenchmarkAFirstConnectWithItsHandshake(b *testing.B) {
	c := open(b, "", Options{})
	roots := pool(c)
	for i := 0; b.Loop(); i++ {
		host := fmt.Sprintf("n%d.api.test", i)
		if _, err, _ := handshake(b, c, host, &tls.Config{RootCAs: roots, ServerName: host}); err != nil {
			b.Fatal(err)
		}
	}
}
