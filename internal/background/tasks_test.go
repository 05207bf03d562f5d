package background

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
)

func TestAPanicEndsItsTaskAndNothingElse(t *testing.T) {
	var text bytes.Buffer
	log := logrus.New()
	log.SetOutput(&text)
	tasks, failed := &Tasks{Log: log}, false
	if _, ok := tasks.Begin(); !ok {
		t.Fatal("no task may begin")
	}
	go func() {
		defer tasks.Done()
		defer tasks.Recover("api.test", func() { failed = true })
		panic("a secret")
	}()
	tasks.End()
	if line := text.String(); !failed || !strings.Contains(line, "api.test") || strings.Contains(line, "secret") {
		t.Errorf("%v, %q", failed, line)
	}
}

func TestTasksEndWithTheProcess(t *testing.T) {
	var tasks Tasks
	ctx, _ := tasks.Begin()
	go func() {
		defer tasks.Done()
		<-ctx.Done()
	}()
	tasks.End()
	if _, ok := tasks.Begin(); ok {
		t.Error("a task begins after the end")
	}
}
