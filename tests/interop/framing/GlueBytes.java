import com.amazonaws.services.schemaregistry.serializers.GlueSchemaRegistryKafkaSerializer;
import com.amazonaws.services.schemaregistry.serializers.json.JsonDataWithSchema;
import com.amazonaws.services.schemaregistry.utils.AWSSchemaRegistryConstants;
import com.amazonaws.services.schemaregistry.utils.AvroRecordType;
import com.amazonaws.services.schemaregistry.utils.ProtobufMessageType;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import com.google.type.Money;
import com.google.type.PhoneNumber;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.message.BinaryMessageEncoder;

/**
 * Values as AWS's own serializer writes them, and single objects as Avro's library does, one line of JSON each. GlueBytes
 * ENDPOINT DESCRIPTOR_SET, where the endpoint speaks Glue's interface and the set is that of shop.proto. Payloads beside
 * them are by protobuf's and Avro's libraries alone.
 */
public final class GlueBytes {
    private static final String AVRO =
            "{\"type\":\"record\",\"name\":\"Reading\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"},{\"name\":\"reading\",\"type\":\"int\"}]}";
    private static final String JSON =
            "{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}";

    private final String endpoint;

    private GlueBytes(String endpoint) {
        this.endpoint = endpoint;
    }

    public static void main(String[] arguments) throws Exception {
        GlueBytes bytes = new GlueBytes(arguments[0]);
        Map<String, FileDescriptor> files = files(Path.of(arguments[1]));
        FileDescriptor shop = files.get("shop.proto");
        Descriptor order = shop.findMessageTypeByName("Order");
        Descriptor line = order.findNestedTypeByName("Line");
        Descriptor order2 = shop.findMessageTypeByName("Order2");
        Descriptor account = shop.findMessageTypeByName("Account");
        Descriptor area = account.findNestedTypeByName("Zone").findNestedTypeByName("Area");

        DynamicMessage aLine = DynamicMessage.newBuilder(line).setField(line.findFieldByName("sku"), "k9")
                .setField(line.findFieldByName("qty"), 3).build();
        DynamicMessage anOrder =
                DynamicMessage.newBuilder(order).addRepeatedField(order.findFieldByName("lines"), aLine).build();
        DynamicMessage anOrder2 = DynamicMessage.newBuilder(order2).setField(order2.findFieldByName("no"), 42).build();
        DynamicMessage anAccount = DynamicMessage.newBuilder(account).setField(account.findFieldByName("id"), 7).build();
        DynamicMessage anArea = DynamicMessage.newBuilder(area).setField(area.findFieldByName("n"), -1L).build();
        for (String compression : new String[] {"NONE", "ZLIB"}) {
            for (Message message : new Message[] {anOrder, aLine, anOrder2, anAccount, anArea,
                DynamicMessage.getDefaultInstance(account)}) {
                bytes.protobuf("shop", ProtobufMessageType.DYNAMIC_MESSAGE, compression, message);
            }
            bytes.protobuf("money", ProtobufMessageType.POJO, compression,
                    Money.newBuilder().setCurrencyCode("AUD").setUnits(12).setNanos(500_000_000).build());
            bytes.protobuf("phone", ProtobufMessageType.POJO, compression,
                    PhoneNumber.newBuilder().setE164Number("+61255501234").build());
            bytes.protobuf("phone", ProtobufMessageType.POJO, compression,
                    PhoneNumber.ShortCode.newBuilder().setRegionCode("AU").setNumber("123456").build());
            bytes.avro(compression);
            bytes.json(compression);
        }
    }

    private static Map<String, FileDescriptor> files(Path set) throws Exception {
        Map<String, FileDescriptor> files = new LinkedHashMap<>();
        for (FileDescriptorProto file : FileDescriptorSet.parseFrom(Files.readAllBytes(set)).getFileList()) {
            FileDescriptor[] imports = file.getDependencyList().stream().map(files::get).toArray(FileDescriptor[]::new);
            files.put(file.getName(), FileDescriptor.buildFrom(file, imports));
        }
        return files;
    }

    private void protobuf(String schema, ProtobufMessageType type, String compression, Message message) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(AWSSchemaRegistryConstants.PROTOBUF_MESSAGE_TYPE, type.getName());
        String name = message.getDescriptorForType().getFullName();
        say(schema, "PROTOBUF", name, compression, message.toByteArray(), settings, message);
    }

    private void avro(String compression) throws Exception {
        Schema schema = new Schema.Parser().parse(AVRO);
        GenericRecord reading = new GenericData.Record(schema);
        reading.put("name", "sensor7");
        reading.put("reading", -8);
        ByteArrayOutputStream payload = new ByteArrayOutputStream();
        var encoder = EncoderFactory.get().binaryEncoder(payload, null);
        new GenericDatumWriter<GenericRecord>(schema).write(reading, encoder);
        encoder.flush();
        Map<String, Object> settings = new HashMap<>();
        settings.put(AWSSchemaRegistryConstants.AVRO_RECORD_TYPE, AvroRecordType.GENERIC_RECORD.getName());
        say("reading", "AVRO", "Reading", compression, payload.toByteArray(), settings, reading);
        if (compression.equals("NONE")) {
            ByteBuffer object = new BinaryMessageEncoder<GenericRecord>(GenericData.get(), schema).encode(reading);
            byte[] framed = new byte[object.remaining()];
            object.get(framed);
            String fingerprint = String.format("%016x", SchemaNormalization.parsingFingerprint64(schema));
            line("avro-single-object", "AVRO", fingerprint, "Reading", false, payload.toByteArray(), framed);
        }
    }

    private void json(String compression) {
        String payload = "{\"n\":12345678901234567890}";
        JsonDataWithSchema value = JsonDataWithSchema.builder(JSON, payload).build();
        say("number", "JSON", "", compression, payload.getBytes(StandardCharsets.UTF_8), new HashMap<>(), value);
    }

    private void say(String schema, String format, String message, String compression, byte[] payload,
            Map<String, Object> settings, Object value) {
        settings.put(AWSSchemaRegistryConstants.AWS_ENDPOINT, endpoint);
        settings.put(AWSSchemaRegistryConstants.AWS_REGION, "us-east-1");
        settings.put(AWSSchemaRegistryConstants.DATA_FORMAT, format);
        settings.put(AWSSchemaRegistryConstants.SCHEMA_NAME, schema);
        settings.put(AWSSchemaRegistryConstants.SCHEMA_AUTO_REGISTRATION_SETTING, "true");
        settings.put(AWSSchemaRegistryConstants.COMPRESSION_TYPE, compression);
        byte[] framed;
        try (GlueSchemaRegistryKafkaSerializer serializer = new GlueSchemaRegistryKafkaSerializer(settings)) {
            serializer.configure(settings, false);
            framed = serializer.serialize("topic", value);
        }
        ByteBuffer id = ByteBuffer.wrap(framed, 2, 16);
        String version = new UUID(id.getLong(), id.getLong()).toString();
        line("glue", format, version, message, compression.equals("ZLIB"), payload, framed);
    }

    private static void line(String framing, String format, String schema, String message, boolean compressed, byte[] payload,
            byte[] value) {
        HexFormat hex = HexFormat.of();
        System.out.printf(
                "{\"framing\":\"%s\",\"format\":\"%s\",\"schema\":\"%s\",\"message\":\"%s\",\"compressed\":%b,\"payload\":\"%s\",\"value\":\"%s\"}%n",
                framing, format, schema, message, compressed, hex.formatHex(payload), hex.formatHex(value));
    }
}
