package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// goClientVariable makes the test binary the Go client: net/http reads its
// proxy and its roots once in a process, so the client needs one of its own.
const goClientVariable = "CLIENTS_GO"

// goClient is the script for Go: goClient(HTTP-BASE, HTTPS-BASE) with the
// default client, which reads HTTP_PROXY, HTTPS_PROXY and SSL_CERT_FILE. It
// returns the process's status.
func goClient(bases []string) int {
	for _, base := range bases {
		for _, step := range []struct{ name, method, path, body string }{
			{"get", "GET", "/get?q=a%20b&n=1", ""},
			{"post", "POST", "/post", "name=J%C3%BCrgen&x=1"},
			{"big", "GET", "/big", ""},
			{"gzip", "GET", "/gzip", ""},
			{"redirect", "GET", "/redirect", ""},
			{"again", "GET", "/get?q=again", ""},
		} {
			line, err := goStep(step.method, base+step.path, step.body)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			scheme, _, _ := strings.Cut(base, ":")
			fmt.Println(scheme, step.name, line)
		}
	}
	return 0
}

func goStep(method, url, body string) (string, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, response.Body); err != nil {
		return "", err
	}
	return fmt.Sprint(response.StatusCode, " ", hex.EncodeToString(digest.Sum(nil)), " ", response.Proto), nil
}
