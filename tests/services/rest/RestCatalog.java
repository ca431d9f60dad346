import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Apache Iceberg's REST catalog, as its own tests serve it, on a free loopback port: RestCatalog.java ENDPOINT_FILE WAREHOUSE DATABASE
 * [NAME=VALUE]... Writes its endpoint to the file once it answers, and serves until it is ended. The database is one of SQLite; the warehouse
 * is a location, of files or of S3; what is named besides are properties of the catalog.
 */
public final class RestCatalog {
    private RestCatalog() {}

    public static void main(String[] args) throws Exception {
        JdbcCatalog catalog = new JdbcCatalog();
        catalog.setConf(new Configuration());
        // One connection: SQLite refuses writers that come together, and the catalog would answer with a fault of its own.
        Map<String, String> properties = new HashMap<>(Map.of(
            "uri", "jdbc:sqlite:" + args[2], "warehouse", args[1], "jdbc.schema-version", "V1", "clients", "1",
            "io-impl", "org.apache.iceberg.io.ResolvingFileIO"));
        for (String property : Arrays.asList(args).subList(3, args.length)) {
            String[] parts = property.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        catalog.initialize("rest", properties);
        ServletContextHandler handler = new ServletContextHandler();
        handler.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        Server server = new Server(new InetSocketAddress("127.0.0.1", 0));
        server.setHandler(handler);
        server.start();
        int port = ((ServerConnector) server.getConnectors()[0]).getLocalPort();
        Path draft = Path.of(args[0] + ".part");
        Files.writeString(draft, "http://127.0.0.1:" + port + "\n");
        Files.move(draft, Path.of(args[0]), StandardCopyOption.ATOMIC_MOVE);
        server.join();
    }
}
