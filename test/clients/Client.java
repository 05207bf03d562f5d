import java.io.InputStream;
import java.net.Authenticator;
import java.net.PasswordAuthentication;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.zip.GZIPInputStream;

/**
 * java Client.java HTTP-BASE HTTPS-BASE: Java's HttpClient.
 *
 * <p>Proxy and roots come from the properties in JAVA_TOOL_OPTIONS. The JVM prints those at its
 * start, so they hold no password, and Java reads none from elsewhere: it is taken from HTTP_PROXY
 * here and given by an Authenticator, which answers the 407.
 */
public class Client {
  private static final HttpClient client = client();

  public static void main(String[] args) throws Exception {
    for (String base : args) {
      report(base, "get", HttpRequest.newBuilder(URI.create(base + "/get?q=a%20b&n=1")));
      report(base, "post", HttpRequest.newBuilder(URI.create(base + "/post"))
          .POST(BodyPublishers.ofString("name=J%C3%BCrgen&x=1")));
      report(base, "big", HttpRequest.newBuilder(URI.create(base + "/big")));
      report(base, "gzip", HttpRequest.newBuilder(URI.create(base + "/gzip"))
          .header("Accept-Encoding", "gzip"));
      report(base, "redirect", HttpRequest.newBuilder(URI.create(base + "/redirect")));
      report(base, "again", HttpRequest.newBuilder(URI.create(base + "/get?q=again")));
    }
  }

  private static HttpClient client() {
    HttpClient.Builder builder = HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NORMAL);
    String user = URI.create(System.getenv("HTTP_PROXY")).getUserInfo();
    if (user != null) {
      String[] parts = user.split(":", 2);
      builder.authenticator(new Authenticator() {
        @Override
        protected PasswordAuthentication getPasswordAuthentication() {
          return getRequestorType() == RequestorType.PROXY
              ? new PasswordAuthentication(parts[0], parts[1].toCharArray())
              : null;
        }
      });
    }
    return builder.build();
  }

  private static void report(String base, String step, HttpRequest.Builder request) throws Exception {
    HttpResponse<InputStream> response = client.send(request.build(), BodyHandlers.ofInputStream());
    // This fails when somebody on the way has inflated it already.
    InputStream body = step.equals("gzip") ? new GZIPInputStream(response.body()) : response.body();
    byte[] digest = MessageDigest.getInstance("SHA-256").digest(body.readAllBytes());
    String version = response.version() == HttpClient.Version.HTTP_2 ? "HTTP/2" : "HTTP/1.1";
    System.out.println(String.join(" ", URI.create(base).getScheme(), step,
        String.valueOf(response.statusCode()), HexFormat.of().formatHex(digest), version));
  }
}
