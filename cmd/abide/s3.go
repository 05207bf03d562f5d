package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/status"
)

// mostOfObject is the longest object that S3 takes in one request.
const mostOfObject = 5 << 30

// writeS3 writes to an object s3://BUCKET/KEY, which is there when all of it has come. The variables are those of the
// programs of AWS. What is written is in a temporary file until its length and hash are known.
func writeS3(cmd *cobra.Command, to string, write func(w io.Writer) error) error {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(to, s3Scheme), "/")
	if bucket == "" || key == "" || strings.HasSuffix(key, "/") {
		return usage(fmt.Errorf("--to: write s3://BUCKET/KEY, not %s", to))
	}
	if os.Getenv("AWS_ACCESS_KEY_ID") == "" || os.Getenv("AWS_SECRET_ACCESS_KEY") == "" {
		return errors.New("--to s3://…: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write to a pipe: --format parquet | aws s3 cp - " + to)
	}
	region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1")
	endpoint, err := url.Parse(cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3."+region+".amazonaws.com"))
	if err != nil || endpoint.Host == "" {
		return usage(errors.New("AWS_ENDPOINT_URL is no URL such as https://minio.example.com:9000"))
	}
	endpoint = &url.URL{Scheme: endpoint.Scheme, Host: endpoint.Host, Path: strings.TrimSuffix(endpoint.Path, "/") + "/" + bucket + "/" + key}
	f, err := os.CreateTemp("", "abide-export-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	sum := sha256.New()
	if err := write(io.MultiWriter(f, sum)); err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err == nil && size > mostOfObject {
		err = fmt.Errorf("it has %d bytes, and S3 takes %d in one request: write less, with --since", size, mostOfObject)
	}
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(cmd.Context(), http.MethodPut, endpoint.String(), io.NewSectionReader(f, 0, size))
	if err != nil {
		return err
	}
	r.ContentLength = size
	signS3(r, region, hex.EncodeToString(sum.Sum(nil)), time.Now())
	resp, err := clientOfCommand(cmd).Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, mostOfRefusal)) // what cannot be read says nothing
		return fmt.Errorf("%s: the answer is %s: %s", to, resp.Status, status.Line(string(said)))
	}
	return nil
}

// mostOfRefusal bounds what is shown of an answer that refuses an object.
const mostOfRefusal = 500

// s3Scheme begins the name of an object.
const s3Scheme = "s3://"

// signS3 signs a request without a query by version 4 of the signatures of AWS. payload is the hash of its body.
func signS3(r *http.Request, region, payload string, now time.Time) {
	at := now.UTC().Format("20060102T150405Z")
	scope := at[:8] + "/" + region + "/s3/aws4_request"
	r.Header.Set("X-Amz-Content-Sha256", payload)
	r.Header.Set("X-Amz-Date", at)
	names := "host;x-amz-content-sha256;x-amz-date"
	headers := "host:" + r.URL.Host + "\nx-amz-content-sha256:" + payload + "\nx-amz-date:" + at + "\n"
	if token := os.Getenv("AWS_SESSION_TOKEN"); token != "" {
		r.Header.Set("X-Amz-Security-Token", token)
		names, headers = names+";x-amz-security-token", headers+"x-amz-security-token:"+token+"\n"
	}
	// Each byte of the path but these is escaped, as the signature has it.
	r.URL.RawPath = strings.NewReplacer("%2F", "/", "+", "%20").Replace(url.QueryEscape(r.URL.Path))
	request := sha256.Sum256([]byte(strings.Join([]string{r.Method, r.URL.RawPath, "", headers, names, payload}, "\n")))
	key := []byte("AWS4" + os.Getenv("AWS_SECRET_ACCESS_KEY"))
	for _, part := range append(strings.Split(scope, "/"), "AWS4-HMAC-SHA256\n"+at+"\n"+scope+"\n"+hex.EncodeToString(request[:])) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x", os.Getenv("AWS_ACCESS_KEY_ID"), scope, names, key))
}
