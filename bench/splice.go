package main

import (
	"encoding/json"
	"io"
	"net"
	"sync"
)

// spliceOrders name the address that every connection is forwarded to.
type spliceOrders struct{ To string }

// spliceRole is the least that a tunnel can cost: two copies between bare TCP
// connections, which Go hands to the kernel's splice.
func spliceRole(in *json.Decoder, out *json.Encoder) error {
	var orders spliceOrders
	if err := in.Decode(&orders); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go forward(client, orders.To)
		}
	}()
	if err := out.Encode(listening{l.Addr().String()}); err != nil {
		return err
	}
	var end struct{}
	return in.Decode(&end)
}

func forward(client net.Conn, to string) {
	defer func() { _ = client.Close() }()
	origin, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = origin.Close() }()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, origin}, {origin, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			if half, ok := way[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
