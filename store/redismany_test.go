package store_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/redistest"
)

// racedChecks are the checks of a property under the race detector, which costs ten
// times what they cost without. tools/test runs them all without it.
const racedChecks = "25"

func TestMain(m *testing.M) {
	flag.Parse()
	if store.Raced {
		if err := flag.Set("rapid.checks", racedChecks); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

func TestRedisByTLS(t *testing.T) {
	cert, key := selfSigned(t)
	server := redistest.Start(t, "--tls-port", "{port}", "--port", "0", "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	s := connect(t, &policy.Store{Hosts: []string{server.Addr}, TLS: true, CA: cert}, nil)
	everything(t, s)
	if _, err := pulsing(t.Context(), &policy.Store{Hosts: []string{server.Addr}, TLS: true}, nil); err == nil ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that nobody vouches for: %v", err)
	}
}

func selfSigned(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert", "CERTIFICATE", cert), write("key", "PRIVATE KEY", secret)
}

func TestSentinelsSayWhoTheMasterIs(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	replica.ReplicaOf(master)
	guard := redistest.Sentinel(t, master, "main")
	guard.Until(replica.Addr, "SENTINEL", "REPLICAS", "main")
	s := connect(t, &policy.Store{Kind: "redis+sentinel", Hosts: []string{guard.Addr}, Master: "main"}, nil)
	everything(t, s)
	before, _ := say(t, s, "", "a", fixed(1, 10))
	master.Kill()
	_, port, _ := net.SplitHostPort(replica.Addr)
	guard.Until(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
	replica.Until("role:master", "INFO", "replication")

	// The client hears of it a little later.
	late, tick := time.After(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for seq := uint64(2); ; seq++ {
		r, err := s.Exchange(t.Context(), []store.Batch{
			{Site: "site", Instance: "a", Generation: before.Generation, Asks: []store.Ask{fixed(seq, 1)}},
		})
		if err == nil {
			if r[0].Answers[0].Status != store.Foreign {
				t.Errorf("got %+v", r[0])
			}
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("after the failover: %v", err)
		}
	}
}

func TestEachMasterOfAClusterHasAGenerationOfItsOwn(t *testing.T) {
	nodes := redistest.Cluster(t, 3)
	for _, node := range nodes {
		node.Do(permitted(strings.ReplaceAll(store.Permissions, ", and in a Cluster", ""))...)
	}
	address := &policy.Store{Kind: "redis+cluster", User: "abide", Password: policy.NewSecret("secret")}
	for _, node := range nodes {
		address.Hosts = append(address.Hosts, node.Addr)
	}
	s := connect(t, address, nil)
	everything(t, s)
	if p, err := s.Pulse(t.Context(), store.Member{}); err != nil || p.Generation != "" {
		t.Errorf("a pulse is of %q, %v", p.Generation, err)
	}
	sites := []string{"a", "b", "c", "d", "e", "f", ""}
	ask := func(generations map[string]string, seq uint64) map[string]store.Reply {
		t.Helper()
		var batches []store.Batch
		for _, site := range sites {
			batches = append(batches, store.Batch{
				Site: site, Instance: "a", Generation: generations[site], Asks: []store.Ask{fixed(seq, 10), fixed(seq+1, 10)},
			})
		}
		replies, err := s.Exchange(t.Context(), batches)
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]store.Reply{}
		for i, site := range sites {
			by[site] = replies[i]
		}
		return by
	}
	known := map[string]string{}
	different := map[string]bool{}
	for site, r := range ask(known, 1) {
		if known[site] = r.Generation; r.Answers[1].Status != store.Done {
			t.Errorf("site %q: %+v", site, r)
		}
		different[r.Generation] = true
	}
	if len(different) != len(nodes) {
		t.Errorf("%d generations", len(different))
	}
	// One of them has lost what it knew, as far as anybody can tell.
	nodes[1].Do("DEBUG", "CHANGE-REPL-ID")
	foreign := 0
	for site, r := range ask(known, 3) {
		switch status := r.Answers[1].Status; {
		case status == store.Foreign && r.Generation != known[site] && r.Answers[1].Recovery > 0:
			foreign++
		case status != store.Done || r.Generation != known[site]:
			t.Errorf("site %q: %+v", site, r)
		}
	}
	if foreign == 0 || foreign == len(sites) {
		t.Errorf("%d of %d sites are on it", foreign, len(sites))
	}
}
