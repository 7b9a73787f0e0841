package formats;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/** Runs the statements of a file. Those that write rows are awaited. */
public class SqlJob {
  /** The line between two statements. */
  private static final String BORDER = "\n----\n";

  /** Arguments: the file of statements, then settings of Flink, each as name=value. */
  public static void main(String[] arguments) throws Exception {
    Map<String, String> settings = new HashMap<>();
    for (int i = 1; i < arguments.length; i++) {
      String[] parts = arguments[i].split("=", 2);
      settings.put(parts[0], parts[1]);
    }
    TableEnvironment tables =
        TableEnvironment.create(
            EnvironmentSettings.newInstance()
                .inStreamingMode()
                .withConfiguration(Configuration.fromMap(settings))
                .build());
    for (String statement : Files.readString(Path.of(arguments[0])).split(BORDER)) {
      var result = tables.executeSql(statement);
      if (statement.stripLeading().startsWith("INSERT")) {
        result.await();
      }
    }
  }
}
