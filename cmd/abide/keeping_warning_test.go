package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store/redistest"
)

func TestAStoreThatEvictsIsWarnedOfAtTheStart(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	p, err := policy.Load(policy.Source{
		Path: "test.yaml", Data: []byte("data: none\nstore: " + server.URL() + "\n"), Lookup: func(string) (string, bool) { return "", false },
	})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	log := logrus.New()
	log.SetOutput(&text)
	k, _, err := openKeeping(t.Context(), p, log)
	if err != nil {
		t.Fatal(err)
	}
	k.close(log)
	if !strings.Contains(text.String(), "allkeys-lru") || !strings.Contains(text.String(), "noeviction") {
		t.Errorf("the log says %q", text.String())
	}
}
