//go:build race

package clients

func init() { buildFlags = append(buildFlags, "-race") }
