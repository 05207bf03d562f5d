// Command systems checks the types of a module for other systems. A build for each of them would
// compile all dependencies again, which takes minutes.
//
//	go -C tools run ./systems windows/amd64 darwin/arm64
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	for _, system := range os.Args[1:] {
		if err := check(system); err != nil {
			fmt.Fprintf(os.Stderr, "systems: %s: %v\n", system, err)
			os.Exit(1)
		}
	}
}

// check loads all packages of the module above for a system, such as windows/amd64, from their source.
func check(system string) error {
	goos, arch, ok := strings.Cut(system, "/")
	if !ok {
		return errors.New("a system is written as windows/amd64")
	}
	found, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax, Dir: "..",
		Env: append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly"),
	}, "./...")
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("there are no packages")
	}
	var all []error
	for _, p := range found {
		for _, fault := range p.Errors {
			all = append(all, fault)
		}
	}
	return errors.Join(all...)
}
