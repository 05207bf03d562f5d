package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/policy"
)

// logged returns what a log of a format writes.
func logged(format string, write func(*logrus.Logger)) string {
	var text bytes.Buffer
	log := logrus.New()
	log.SetOutput(&text)
	setLog(log, policy.Log{Level: "info", Format: format})
	write(log)
	return text.String()
}

func TestFieldsThatTheSentenceSaysAreInJSONAlone(t *testing.T) {
	fields := logrus.Fields{"site": "a.test", "token": "alice", "client": "news", "limit": "5 requests", "reason": "429"}
	write := func(log *logrus.Logger) {
		log.WithFields(fields).WithError(errors.New("gone")).WithField("stack", "main.go:1").Warn("a.test holds news and alice by 5 requests after 429")
	}
	text := logged("text", write)
	if !strings.HasSuffix(text, ` level=warning msg="a.test holds news and alice by 5 requests after 429" error=gone stack="main.go:1"`+"\n") || !strings.HasPrefix(text, "time=") {
		t.Errorf("the text is %s", text)
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(logged("json", write)), &object); err != nil {
		t.Fatal(err)
	}
	for key, value := range fields {
		if object[key] != value {
			t.Errorf("%s is %v in JSON, not %v", key, object[key], value)
		}
	}
	if object["error"] != "gone" || object["stack"] != "main.go:1" {
		t.Errorf("the JSON is %v", object)
	}
}

func TestTheJobOfAProcessIsInJSONAlone(t *testing.T) {
	write := func(log *logrus.Logger) {
		log.WithFields(logrus.Fields{"job": "orders", "site": "a.test"}).Info("2 units to be tried again")
	}
	if text := logged("text", write); !strings.HasSuffix(text, ` level=info msg="2 units to be tried again" site=a.test`+"\n") {
		t.Errorf("the text is %s", text)
	}
	if text := logged("json", write); !strings.Contains(text, `"job":"orders"`) {
		t.Errorf("the JSON is %s", text)
	}
}

func TestALineWithoutFieldsAndALineOfTheAccessLogAreWhole(t *testing.T) {
	plain := logged("text", func(log *logrus.Logger) { log.Warn("all is well") })
	if !strings.HasSuffix(plain, " level=warning msg=\"all is well\"\n") {
		t.Errorf("the text is %s", plain)
	}
	access := logged("text", func(log *logrus.Logger) {
		log.WithFields(logrus.Fields{"site": "a.test", "client": "news", "url": "http://a.test/"}).Info("request")
	})
	if !strings.HasSuffix(access, ` level=info msg=request client=news site=a.test url="http://a.test/"`+"\n") {
		t.Errorf("the text is %s", access)
	}
}
