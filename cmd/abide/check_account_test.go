package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/abide-proxy/abide/policy"
)

func TestCheckSaysWhichTokensShareAnAccount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "abide.yaml")
	write(t, file, "pools: {p: {tokens: [{label: b, secret: canary-1, account: org}, {label: a, secret: canary-2, account: org}, {label: c, secret: canary-3}]}}\nsites: [{host: api.test, pool: p}]\n")
	p, err := policy.Load(policy.Source{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	labels, _, faults := readPools(t.Context(), p)
	if want := []string{"b", "a (one account: a, b)", "c"}; len(faults) > 0 || !slices.Equal(labels["p"], want) {
		t.Error(labels, faults)
	}
}
