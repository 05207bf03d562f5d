package ca

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// wget has no variable for certificates, but WGETRC names the file that it reads instead of
// ~/.wgetrc. abide writes two: one with all of the user's settings, and one without proxy
// settings, which would override http_proxy and https_proxy.
const (
	wgetrcName        = "wgetrc"
	proxiedWgetrcName = "wgetrc-proxy"
)

// addedMarker begins the lines that abide adds, followed by the path of the copied file.
const addedMarker = "# Added by abide to a copy of "

var (
	// wget ignores case, "-" and "_" in the names of settings.
	certificateSetting = regexp.MustCompile(`(?im)^[ \t]*ca[-_]?certificate[ \t]*=[ \t]*(.*?)[ \t\r]*$`)
	proxySetting       = regexp.MustCompile(`(?im)^[ \t]*(?:https?[-_]?proxy|use[-_]?proxy)[ \t]*=.*\n?`)
)

// wgetrc is a file of wget's settings.
type wgetrc struct {
	path string
	text []byte
	err  error // why the file could not be read
}

// userWgetrc is the file that wget reads without abide. A file written by abide stands for
// the file it was copied from. abide's files in the directories own may be missing.
func userWgetrc(files []string) wgetrc {
	path := ""
	if home, err := os.UserHomeDir(); err == nil && home != "" {
		path = filepath.Join(home, ".wgetrc")
	}
	named := os.Getenv("WGETRC")
	if named == "" {
		return readWgetrc(path)
	}
	rc := readWgetrc(named)
	if rc.err != nil && slices.Contains(files, filepath.Dir(named)) {
		return readWgetrc(path)
	}
	if copied, lines, found := bytes.Cut(rc.text, []byte(addedMarker)); found {
		from, _, _ := strings.Cut(string(lines), "\n")
		if rc = readWgetrc(from); rc.err != nil {
			rc.text = copied
		}
	}
	return rc
}

func readWgetrc(path string) wgetrc {
	if path == "" {
		return wgetrc{}
	}
	text, err := readRegular(path, maxFile)
	return wgetrc{path: path, text: text, err: err}
}

// certificates is the file that the setting ca_certificate names, "" for none.
func (rc wgetrc) certificates() string {
	found := certificateSetting.FindAllSubmatch(rc.text, -1)
	if len(found) == 0 {
		return ""
	}
	return string(found[len(found)-1][1])
}

// with is the text with a bundle as the certificates to trust. The last of two equal
// settings counts.
func (rc wgetrc) with(bundleFile string) []byte {
	var b bytes.Buffer
	b.Write(rc.text)
	if len(rc.text) > 0 && !bytes.HasSuffix(rc.text, []byte("\n")) {
		b.WriteByte('\n')
	}
	b.WriteString(addedMarker + rc.path + "\n")
	b.WriteString("ca_certificate = " + bundleFile + "\n")
	return b.Bytes()
}

// withoutProxies is the file without settings that beat the variables for
// proxies.
func (rc wgetrc) withoutProxies() wgetrc {
	rc.text = proxySetting.ReplaceAll(rc.text, nil)
	return rc
}

// wgetrcFile returns the path at which WriteBundle puts the settings for wget beside a bundle.
func wgetrcFile(bundleFile string, proxied bool) string {
	name := wgetrcName
	if proxied {
		name = proxiedWgetrcName
	}
	return filepath.Join(filepath.Dir(bundleFile), name)
}

// readRegular reads a regular file of at most limit and maxFile bytes. Reading
// another kind of file could block.
func readRegular(path string, limit int) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	limit = min(limit, maxFile)
	text, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > limit {
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	}
	return text, nil
}
