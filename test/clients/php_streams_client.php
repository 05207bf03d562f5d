<?php
// php_streams_client.php HTTP-BASE HTTPS-BASE [alone]: PHP's streams, which
// file_get_contents and fopen use. "alone" leaves the context as it is.
//
// Their roots are those of openssl.cafile, in the settings that PHP_INI_SCAN_DIR
// adds. They read no variable for a proxy: the default context names it.

function useProxy(): void {
  $proxy = parse_url(getenv("http_proxy"));
  $http = ["proxy" => "tcp://{$proxy['host']}:{$proxy['port']}", "request_fulluri" => true];
  if (isset($proxy["user"])) {
    $credentials = rawurldecode($proxy["user"]) . ":" . rawurldecode($proxy["pass"]);
    $http["header"] = "Proxy-Authorization: Basic " . base64_encode($credentials);
  }
  stream_context_set_default(["http" => $http]);
}

if (($argv[3] ?? "") !== "alone") {
  useProxy();
}

foreach (array_slice($argv, 1, 2) as $base) {
  foreach (["get" => "/get?q=a%20b&n=1", "big" => "/big", "redirect" => "/redirect", "again" => "/get?q=again"] as $step => $path) {
    $body = file_get_contents($base . $path);
    if ($body === false) {
      exit(1); // PHP has printed why
    }
    $lines = preg_grep("|^HTTP/|", $http_response_header);
    [$version, $status] = explode(" ", end($lines));
    echo strtok($base, ":"), " $step $status ", hash("sha256", $body), " $version\n";
  }
}
