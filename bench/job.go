package main

import (
	"strconv"
	"strings"
	"time"
)

// The ways in which the generator reaches the origin.
const (
	direct  = "direct"  // Dial is the origin, or what forwards to it
	plain   = "plain"   // absolute-form requests to the proxy at Dial
	connect = "connect" // a CONNECT to the proxy at Dial first
)

// job is what the generator is to do. Either For or Count bounds it.
type job struct {
	Way       string
	Dial      string
	Authority string        // what requests or CONNECT name; %d stands for the number of the connection
	Roots     string        // PEM file: speak TLS inside, and believe these only
	Size      int64         // bytes that each answer must have
	Conns     int           // connections at once
	For       time.Duration // keep them alive and busy for so long
	Count     int           // or so many connections with one request each
	First     int           // the number of the first of them, for %d
	Hold      bool          // ask for answers that do not come; Finish collects them
	Finish    bool          // read the answers to what an earlier job left held
	Drop      bool          // hang up on what an earlier job left held
}

// name is the host:port that connection i names.
func (j job) name(i int) string {
	return strings.ReplaceAll(j.Authority, "%d", strconv.Itoa(j.First+i))
}

// request is what connection i sends, over and over.
func (j job) request(i int) []byte {
	path := "/" + strconv.FormatInt(j.Size, 10)
	if j.Hold {
		path = "/hold"
	}
	host := strings.TrimSuffix(strings.TrimSuffix(j.name(i), ":80"), ":443")
	target := path
	if j.Way == plain {
		target = "http://" + host + path
	}
	return []byte("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
}

// outcome is what the generator saw.
type outcome struct {
	Requests int64 // answered in full with 200
	Bytes    int64 // of their bodies
	Conns    int64 // that it opened
	Took     time.Duration
	P50, P99 time.Duration
	Fault    string // the first that went wrong; empty when nothing did
}
