// Command abide is an HTTP forward proxy for crawlers. See the README.
package main

import (
	"context"
	"os"
	_ "time/tzdata" // the image has no time zones of its own
)

func main() {
	lift := floorHeap()
	code := execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	lift()
	os.Exit(code)
}
