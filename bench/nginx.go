package main

import (
	"context"
	"fmt"
	"os"

	"github.com/abide-proxy/abide/bench/process"
)

// startNginx runs nginx in one process as a forward proxy: it accepts
// absolute-form requests and knows the origin as an upstream group of its name.
// It has no CONNECT.
func startNginx(ctx context.Context, b *bed, _ bool) (*way, error) {
	at, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log /dev/null crit;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path %[1]s/nginx-body;
  proxy_temp_path %[1]s/nginx-proxy;
  fastcgi_temp_path %[1]s/nginx-fastcgi;
  uwsgi_temp_path %[1]s/nginx-uwsgi;
  scgi_temp_path %[1]s/nginx-scgi;
  upstream %[2]s { server %[3]s; keepalive 256; }
  server {
    listen %[4]s;
    location / {
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Connection "";
      proxy_max_temp_file_size 0;
      proxy_pass http://$host;
    }
  }
}
`, b.dir, siteHost, b.at.Plain, at)
	if err := os.WriteFile(b.file("nginx.conf"), []byte(config), 0o644); err != nil {
		return nil, err
	}
	p, err := startDaemon(ctx, b, "nginx", at, "-c", b.file("nginx.conf"))
	if err != nil {
		return nil, err
	}
	return &way{Process: p, plain: route{plain, at, siteHost + ":80", ""}}, nil
}
