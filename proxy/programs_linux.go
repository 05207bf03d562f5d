package proxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/proxy/ca"
)

// maxProgramName is the number of bytes of a program's name that are for people.
const maxProgramName = 32

// changingNumbers matches what differs between two runs of the same program: numbers of processes
// and pages, and names of temporary directories.
var changingNumbers = regexp.MustCompile(`[0-9]{2,}|^[0-9]$`)

// localProgram names the program that has the socket at address from, connected to address to:
// curl-1f2e3d4c. It is "uid-1000" for a process that abide may not look at, and "" where there is
// no such socket. It takes some milliseconds.
func localProgram(from, to netip.AddrPort) string {
	inode, user := socketBetween(from, to)
	if inode == "" {
		return ""
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	slices.Reverse(processes) // crawlers are younger than what the machine started by itself
	for _, process := range processes {
		files, _ := os.Open(process + "/fd")
		names, _ := files.Readdirnames(0) // fails where files is nil
		_ = files.Close()
		for _, name := range names {
			if file, _ := os.Readlink(process + "/fd/" + name); file == "socket:["+inode+"]" {
				return programOf(process)
			}
		}
	}
	return "uid-" + user
}

// socketBetween finds the TCP socket between two addresses of this machine, and the user that owns
// it. inode is "" for a socket that is not open.
func socketBetween(from, to netip.AddrPort) (inode, user string) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // without IPv6 there is no tcp6
		row := " " + addressIn(table, from) + " " + addressIn(table, to) + " "
		if _, after, found := bytes.Cut(text, []byte(row)); found {
			if columns := bytes.Fields(after[:min(len(after), 200)]); len(columns) > 6 && string(columns[6]) != "0" {
				return string(columns[6]), string(columns[4])
			}
		}
	}
	return "", ""
}

// addressIn is an address as a table of /proc/net has it: words of four bytes, the last byte first.
func addressIn(table string, a netip.AddrPort) string {
	address := a.Addr().Unmap().AsSlice()
	if strings.HasSuffix(table, "6") {
		whole := a.Addr().As16()
		address = whole[:]
	}
	for word := range slices.Chunk(address, 4) {
		slices.Reverse(word)
	}
	return fmt.Sprintf("%X:%04X", address, a.Port())
}

// programOf names the program that a process runs. Two processes run the same program if they have
// the same executable, the same arguments but for numbers and URLs, and the same variables that say
// which certificates they trust. Arguments and variables cannot be read from the name.
func programOf(process string) string {
	executable, _ := os.Readlink(process + "/exe")
	arguments, _ := os.ReadFile(process + "/cmdline")
	environ, _ := os.ReadFile(process + "/environ")
	same := []string{executable}
	for word := range strings.SplitSeq(string(arguments), "\x00") {
		if !strings.Contains(word, "://") {
			same = append(same, changingNumbers.ReplaceAllString(word, ""))
		}
	}
	trust := strings.Split(string(environ), "\x00")
	slices.Sort(trust)
	for _, one := range trust {
		if name, _, _ := strings.Cut(one, "="); name == "HOME" || ca.SetsTrust(name) {
			same = append(same, changingNumbers.ReplaceAllString(one, ""))
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", same))
	name, _, _ := strings.Cut(filepath.Base(executable), " ") // " (deleted)" follows a file that is gone
	return name[:min(len(name), maxProgramName)] + "-" + hex.EncodeToString(sum[:4])
}
