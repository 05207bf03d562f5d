// Command abide is an HTTP forward proxy for crawlers. See the README.
package main

import (
	"context"
	"os"
	_ "time/tzdata" // the container image has no time zones
)

func main() {
	lift := setHeapFloor()
	code := execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	lift()
	os.Exit(code)
}
