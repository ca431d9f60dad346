import com.amazonaws.services.schemaregistry.deserializers.GlueSchemaRegistryKafkaDeserializer;
import com.amazonaws.services.schemaregistry.serializers.json.JsonDataWithSchema;
import com.amazonaws.services.schemaregistry.utils.AWSSchemaRegistryConstants;
import com.amazonaws.services.schemaregistry.utils.AvroRecordType;
import com.amazonaws.services.schemaregistry.utils.ProtobufMessageType;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.DynamicMessage;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.generic.GenericRecord;

/** Employee records as AWS's own deserializer reads them: values in hexadecimal from stdin; id, name and role a line. GlueReads ENDPOINT. */
public final class GlueReads {
    private GlueReads() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put(AWSSchemaRegistryConstants.AWS_ENDPOINT, arguments[0]);
        settings.put(AWSSchemaRegistryConstants.AWS_REGION, "us-east-1");
        settings.put(AWSSchemaRegistryConstants.PROTOBUF_MESSAGE_TYPE, ProtobufMessageType.DYNAMIC_MESSAGE.getName());
        settings.put(AWSSchemaRegistryConstants.AVRO_RECORD_TYPE, AvroRecordType.GENERIC_RECORD.getName());
        try (GlueSchemaRegistryKafkaDeserializer deserializer = new GlueSchemaRegistryKafkaDeserializer(settings);
                BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            deserializer.configure(settings, false);
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(said(deserializer.deserialize("topic", HexFormat.of().parseHex(line))));
            }
        }
    }

    private static String said(Object value) throws Exception {
        if (value instanceof DynamicMessage message) {
            var type = message.getDescriptorForType();
            Object role = message.getField(type.findFieldByName("role"));
            return message.getField(type.findFieldByName("id")) + "\t" + message.getField(type.findFieldByName("name")) + "\t"
                    + ((EnumValueDescriptor) role).getName();
        }
        if (value instanceof GenericRecord record) {
            return record.get("id") + "\t" + record.get("name") + "\t" + record.get("role");
        }
        JsonNode node = new ObjectMapper().readTree(((JsonDataWithSchema) value).getPayload());
        return node.get("id").asText() + "\t" + node.get("name").asText() + "\t" + node.get("role").asText();
    }
}
