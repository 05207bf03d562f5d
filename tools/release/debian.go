package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// maintainer is the person that the control file names.
const maintainer = "abide-proxy <abide-proxy@users.noreply.github.com>"

// debianFiles lists the paths to which the files of deploy/debian are installed.
var debianFiles = []struct{ from, to string }{
	{"abide.service", "usr/lib/systemd/system/abide.service"},
	{"abide.sysusers", "usr/lib/sysusers.d/abide.conf"},
	{"abide.yaml", "etc/abide/abide.yaml"},
}

// debian is the package of a program: an ar archive of a version, what dpkg needs
// to know (control) and the files (data).
func (r *release) debian(p *program, version string, documents []file) ([]byte, error) {
	const doc = "usr/share/doc/abide/"
	files := []file{{name: "usr/bin/abide", mode: 0o755, content: p.binary}}
	for _, one := range documents {
		if one.name == "LICENSE" || one.name == "THIRD_PARTY_LICENSES" {
			continue // both are in copyright
		}
		one.name = doc + one.name
		files = append(files, one)
	}
	files = append(files, file{name: doc + "copyright", mode: 0o644, content: copyright(p)})
	files = append(files, below("usr/share/man/man1/", r.pages)...)
	for _, one := range debianFiles {
		content, err := r.debianFile(one.from)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: one.to, mode: 0o644, content: content})
	}
	control, err := r.control(p, version, files)
	if err != nil {
		return nil, err
	}
	// dpkg wants its names to begin with "./".
	data, err := tarball(below("./", files), r.time)
	if err != nil {
		return nil, err
	}
	return ar(r.time, []file{{name: "debian-binary", content: []byte("2.0\n")}, {name: "control.tar.gz", content: control}, {name: "data.tar.gz", content: data}}), nil
}

func (r *release) debianFile(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(r.source, "deploy", "debian", name))
}

// control is control.tar.gz.
func (r *release) control(p *program, version string, files []file) ([]byte, error) {
	var size int
	var sums, kept bytes.Buffer
	for _, one := range files {
		size += (len(one.content) + 1023) / 1024
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(one.content), one.name)
		if strings.HasPrefix(one.name, "etc/") {
			fmt.Fprintf(&kept, "/%s\n", one.name)
		}
	}
	about := fmt.Sprintf(`Package: abide
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
Depends: ca-certificates, systemd | systemd-standalone-sysusers | systemd-sysusers
Section: net
Priority: optional
Homepage: https://github.com/abide-proxy/abide
Description: HTTP forward proxy that keeps crawlers within rate limits
 abide holds each request of a crawler until the limits of its site let it go,
 learns these limits from the answers, and sends again what was refused. The
 crawler sees a slower answer and no 429.
`, version, p.arch, maintainer, size)
	inside := []file{
		{name: "control", mode: 0o644, content: []byte(about)},
		{name: "md5sums", mode: 0o644, content: sums.Bytes()},
		{name: "conffiles", mode: 0o644, content: kept.Bytes()},
	}
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		script, err := r.debianFile(name)
		if err != nil {
			return nil, err
		}
		inside = append(inside, file{name: name, mode: 0o755, content: script})
	}
	return tarball(below("./", inside), r.time)
}

// copyright is the file of that name, which Debian wants in every package.
func copyright(p *program) []byte {
	head := `abide is licensed under the Apache License, Version 2.0; on Debian systems its
text is in /usr/share/common-licenses/Apache-2.0. Its source is at
https://github.com/abide-proxy/abide

`
	return append([]byte(head), thirdParty(p.licences)...)
}

// below puts a directory before each name.
func below(dir string, files []file) []file {
	moved := make([]file, len(files))
	for i, one := range files {
		one.name = dir + one.name
		moved[i] = one
	}
	return moved
}

// ar is an archive in the format of ar(5).
func ar(at time.Time, files []file) []byte {
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, one := range files {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", one.name, at.Unix(), 0, 0, "100644", len(one.content))
		out.Write(one.content)
		if len(one.content)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// described matches a version that begins with a tag: v1.2.3, v1.2.3-rc.1,
// v1.2.3-4-g0123abc.
var described = regexp.MustCompile(`^v?(\d+(?:\.\d+)*)(?:-([A-Za-z][0-9A-Za-z.]*))?(?:-(\d+)-g([0-9a-f]+))?$`)

// debianVersion is a version that dpkg orders rightly: candidates of a release are
// before it, and what follows a tag is after it. Without a tag it is made of the
// commit's time, so that a later commit is newer, and is older than any release.
func debianVersion(version string, at time.Time) string {
	clean, dirty := strings.CutSuffix(version, "-dirty")
	part := described.FindStringSubmatch(clean)
	// A commit's hash may consist of digits; a tag of ours has a dot or a v.
	if part == nil || !strings.ContainsAny(version, "v.") {
		return "0~" + at.Format("20060102150405") + "." + regexp.MustCompile(`[^0-9A-Za-z.]+`).ReplaceAllString(version, ".")
	}
	text := part[1]
	if part[2] != "" {
		text += "~" + part[2]
	}
	if part[3] != "" {
		text += "+" + part[3] + ".g" + part[4]
	}
	if dirty {
		text += "+dirty"
	}
	return text
}

// file is one file of an archive.
type file struct {
	name    string // with slashes
	mode    int64
	content []byte
}

// tarball is a tar.gz with the files and the directories that they are in, sorted
// by name, all of root and of one time.
func tarball(files []file, at time.Time) ([]byte, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	var err error
	put := func(kind byte, name string, mode int64, content []byte) {
		if err == nil {
			err = archive.WriteHeader(&tar.Header{
				Typeflag: kind, Name: name, Mode: mode, Size: int64(len(content)), ModTime: at, Uname: "root", Gname: "root", Format: tar.FormatGNU,
			})
		}
		if err == nil {
			_, err = archive.Write(content)
		}
	}
	written := map[string]bool{} // directories that are in the archive
	for _, one := range files {
		for i, letter := range one.name {
			if dir := one.name[:i+1]; letter == '/' && !written[dir] {
				written[dir] = true
				put(tar.TypeDir, dir, 0o755, nil)
			}
		}
		put(tar.TypeReg, one.name, one.mode, one.content)
	}
	if err = errors.Join(err, archive.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
