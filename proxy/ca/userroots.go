package ca

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/abide-proxy/abide/internal/lists"
)

// maxUserRoots bounds the bytes that are read of all files of user roots.
const maxUserRoots = 64 << 20

// UserRoots are, in PEM, the certificates that the user of this process trusts in addition
// to the system's and to those of the CA in dir: the files and directories named by the
// variables of Env, SSL_CERT_DIR, GIT_SSL_CAPATH and the user's wgetrc. Unusable files are
// left out. dir may be "".
func UserRoots(dir string) []byte {
	certs, _ := readUserRoots("", []string{dir})
	var certificates []*x509.Certificate
	if dir != "" {
		certificates, _, _ = readCertificates(files{dir}.rootPath(), maxFile)
	}
	return encodeCertificates(slices.DeleteFunc(certs, func(cert *x509.Certificate) bool {
		sameKey := func(o *x509.Certificate) bool {
			return bytes.Equal(o.RawSubjectPublicKeyInfo, cert.RawSubjectPublicKeyInfo)
		}
		return slices.ContainsFunc(certificates, sameKey)
	}))
}

// rootFile is a file or a directory of certificates and what names it.
type rootFile struct {
	path  string
	names []string // variables and settings
}

// userRootFiles are the files and directories of readUserRoots, each once, in the
// order in which they are named.
func userRootFiles(egressRoots string, bundles []string) []rootFile {
	var files []rootFile
	add := func(name, path string) {
		if file := lists.Find(files, func(f *rootFile) bool { return f.path == path }); file != nil {
			file.names = append(file.names, name)
		} else if path != "" {
			files = append(files, rootFile{path: path, names: []string{name}})
		}
	}
	for _, name := range slices.Concat(addingVariables, replacingVariables, []string{"GIT_SSL_CAPATH"}) {
		add(name, os.Getenv(name))
	}
	for _, path := range filepath.SplitList(os.Getenv("SSL_CERT_DIR")) {
		add("SSL_CERT_DIR", path)
	}
	rc := userWgetrc(bundles)
	add("ca_certificate in "+rc.path, rc.certificates())
	add("egress.roots", egressRoots)
	return files
}

// readUserRoots reads, each once, the certificates of all files that the user names, and of
// egressRoots, which may be "". A warning names an unusable file. Bundles in the
// directories own are written by abide: their user certificates are in the file of
// additions, and the bundles may be missing.
func readUserRoots(egressRoots string, files []string) (certs []*x509.Certificate, warnings []string) {
	seen := map[string]bool{} // raw certificate → it is in certs
	left := maxUserRoots
	for _, file := range userRootFiles(egressRoots, files) {
		path := file.path
		name := filepath.Base(path)
		isOwn := (name == bundleName || name == extraName) && slices.Contains(files, filepath.Dir(path))
		if isOwn {
			path = filepath.Join(filepath.Dir(path), extraName)
		}
		found, size, err := readCertificates(path, left)
		left -= size
		for _, one := range found {
			if !seen[string(one.Raw)] {
				seen[string(one.Raw)] = true
				certs = append(certs, one)
			}
		}
		if err != nil && !isOwn {
			which := "the"
			if len(found) > 0 {
				which = "all"
			}
			warnings = append(warnings, fmt.Sprintf("%s %s, but clients will not trust %s certificates there: %v", file.named(), file.path, which, err))
		}
	}
	return certs, warnings
}

// named is "A names", "A and B name" or "A, B and 3 more variables name".
func (f rootFile) named() string {
	switch n := len(f.names); n {
	case 1:
		return f.names[0] + " names"
	case 2:
		return f.names[0] + " and " + f.names[1] + " name"
	default:
		return fmt.Sprintf("%s, %s and %d more name", f.names[0], f.names[1], n-2)
	}
}
