<?php
// php_curl_client.php HTTP-BASE HTTPS-BASE: PHP's curl extension.
//
// It reads http_proxy (lower case only) and HTTPS_PROXY with their credentials. Its
// roots are those of curl.cainfo, in the settings that PHP_INI_SCAN_DIR adds.

const VERSIONS = [CURL_HTTP_VERSION_1_1 => "HTTP/1.1", CURL_HTTP_VERSION_2_0 => "HTTP/2"];

$handle = curl_init();

foreach (array_slice($argv, 1, 2) as $base) {
  $report = function (string $step, string $path, array $options = []) use ($handle, $base): void {
    curl_reset($handle);
    curl_setopt_array($handle, $options + [CURLOPT_URL => $base . $path, CURLOPT_RETURNTRANSFER => true]);
    $body = curl_exec($handle);
    if ($body === false) {
      fwrite(STDERR, curl_error($handle) . "\n");
      exit(1);
    }
    $version = VERSIONS[curl_getinfo($handle, CURLINFO_HTTP_VERSION)];
    $status = curl_getinfo($handle, CURLINFO_RESPONSE_CODE);
    echo strtok($base, ":"), " $step $status ", hash("sha256", $body), " $version\n";
  };
  $report("get", "/get?q=a%20b&n=1");
  $report("post", "/post", [CURLOPT_POSTFIELDS => "name=J%C3%BCrgen&x=1"]);
  $report("big", "/big");
  $report("gzip", "/gzip", [CURLOPT_ENCODING => ""]);
  $report("redirect", "/redirect", [CURLOPT_FOLLOWLOCATION => true]);
  $report("again", "/get?q=again");
}
