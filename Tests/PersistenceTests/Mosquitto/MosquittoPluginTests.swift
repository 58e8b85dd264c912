import BrokerCore
import BrokerModel
import Glibc
import MQTTCodec
import Platform
import RowStore
import Testing

@testable import Persistence

/// What mosquitto's persist-sqlite plug-in keeps, in databases that are made with its own schema.
@Suite struct MosquittoPluginTests {
    private let home: StoreHome
    private let path: String

    init() throws {
        home = try StoreHome(name: "plugin")
        path = "\(home.path)/mosquitto.sqlite3"
        try make(Self.schema + Self.wills + Self.version("1", "1"))
    }

    /// As the plug-in of mosquitto 2.1 makes them.
    private static let schema = """
        PRAGMA journal_mode=WAL;
        CREATE TABLE base_msgs (store_id INT64 PRIMARY KEY,expiry_time INT64,topic STRING NOT NULL,payload BLOB,source_id STRING,
          source_username STRING,payloadlen INTEGER,source_mid INTEGER,source_port INTEGER,qos INTEGER,retain INTEGER,properties STRING);
        CREATE TABLE retains (topic STRING PRIMARY KEY,store_id INT64);
        CREATE TABLE clients (client_id TEXT PRIMARY KEY,username TEXT,connection_time INT64,will_delay_time INT64,
          session_expiry_time INT64,listener_port INT,max_packet_size INT,max_qos INT,retain_available INT,session_expiry_interval INT,
          will_delay_interval INT);
        CREATE TABLE subscriptions (client_id TEXT NOT NULL,topic TEXT NOT NULL,subscription_options INTEGER,
          subscription_identifier INTEGER,PRIMARY KEY (client_id, topic) );
        CREATE TABLE client_msgs (client_id TEXT NOT NULL,cmsg_id INT64,store_id INT64,dup INTEGER,direction INTEGER,mid INTEGER,
          qos INTEGER,retain INTEGER,state INTEGER,subscription_identifier INTEGER);
        CREATE INDEX client_msgs_client_id ON client_msgs(client_id);
        CREATE TABLE version_info (component TEXT NOT NULL,major INTEGER NOT NULL,minor INTEGER NOT NULL,patch INTEGER NOT NULL);

        """
    private static let wills = """
        CREATE TABLE wills (client_id TEXT PRIMARY KEY,payload BLOB,topic STRING NOT NULL,payloadlen INTEGER,qos INTEGER,
          retain INTEGER,properties STRING);

        """
    private static func version(_ major: String, _ minor: String) -> String {
        "INSERT INTO version_info VALUES ('database_schema', '\(major)', '\(minor)', '0');\n"
    }

    private func make(_ sql: String) throws {
        try DiskFile.create(path)
        try change(sql)
    }

    private func change(_ sql: String) throws {
        do {
            let connection = try SQLiteConnection(path, .write)
            try connection.execute(sql)
            _ = try connection.checkpoint(.truncate)
        }
        for rest in ["-wal", "-shm"] { try DiskFile.remove(path + rest) }
    }

    private func write(_ bytes: [UInt8]) throws {
        let file = try #require(fopen(path, "w"))
        defer { fclose(file) }
        try #require(fwrite(bytes, 1, bytes.count, file) == bytes.count)
    }

    private func read() throws -> MosquittoDatabase { try MosquittoDatabase(ofPlugin: path) }

    /// What the reading of a database is refused with.
    private func refusal() -> String {
        do throws(MosquittoPluginDatabaseError) {
            _ = try MosquittoDatabase(ofPlugin: path)
            return ""
        } catch {
            return error.description
        }
    }

    private static let filling = """
        INSERT INTO clients VALUES ('five','anna',1,0,0,1883,0,2,1,3600,5), ('away',NULL,1,0,1795282346,8883,0,2,1,60,0),
          ('old','',1,0,0,0,0,2,1,-1,0), ('dying',NULL,1,1795280000,1795282000,1883,0,2,1,4294967295,30);
        INSERT INTO base_msgs VALUES (9223372036854775900,0,'q/1',x'00FF','pub','peter',2,7,1883,1,0,
          '[{"identifier":"payload-format-indicator","value":1},{"identifier":"content-type","value":"text"},
            {"identifier":"response-topic","value":"answer"},{"identifier":"correlation-data","value":"00fF"},
            {"identifier":"user-property","name":"k","value":"v \\u00fc"},{"identifier":"user-property","name":"k","value":"7"}]'),
          (2,1795279746,'12',x'31',NULL,NULL,1,0,0,2,1,NULL), (3,0,'q/3',NULL,'five','anna',0,33,1883,2,0,NULL);
        INSERT INTO retains VALUES ('12', 2);
        INSERT INTO subscriptions VALUES ('five','q/+',2 | 4 | 8,77), ('away','#',0,0), ('old','$share/g/q/#',1,0),
          ('away','$share/g/q/#',1,0);
        INSERT INTO client_msgs VALUES ('five',1,9223372036854775900,1,1,5,1,0,3,77), ('five',2,2,0,1,6,2,1,9,0),
          ('away',1,9223372036854775900,0,1,0,1,0,11,0), ('five',3,3,0,0,33,2,0,7,0);
        INSERT INTO wills VALUES ('five',x'6279','will/five',2,1,1,'[{"identifier":"content-type","value":"w"}]'),
          ('dying',NULL,'will/dying',0,0,0,NULL), ('gone',x'62','q/will',1,1,1,NULL);
        """

    @Test func `everything that the plug-in keeps is read`() throws {
        try change(Self.filling)
        let database = try read()
        #expect(database.wasWrittenAtEnd)
        #expect(
            database.clients == [
                MosquittoClient(
                    identifier: "five", sessionExpiryInterval: 3600, sessionEndsAt: nil, lastPacketIdentifier: 0, userName: "anna",
                    listenerPort: 1883),
                MosquittoClient(
                    identifier: "away", sessionExpiryInterval: 60, sessionEndsAt: 1_795_282_346, lastPacketIdentifier: 0,
                    userName: nil, listenerPort: 8883),
                MosquittoClient(
                    identifier: "old", sessionExpiryInterval: .max, sessionEndsAt: nil, lastPacketIdentifier: 0, userName: nil,
                    listenerPort: 0),
                MosquittoClient(
                    identifier: "dying", sessionExpiryInterval: .max, sessionEndsAt: 1_795_282_000, lastPacketIdentifier: 0,
                    userName: nil, listenerPort: 1883),
            ])
        #expect(database.messages.map(\.topic) == ["q/1", "12", "q/3"])
        #expect(database.messages.map(\.payload) == [[0, 255], [0x31], []])
        #expect(database.messages.map(\.expiresAt) == [nil, 1_795_279_746, nil])
        let properties = try #require(database.messages.first?.properties)
        #expect(properties.payloadFormatIndicator == 1 && properties.contentType == "text")
        #expect(properties.responseTopic == "answer" && properties.correlationData == [0, 255])
        #expect(properties.userProperties.map(\.value) == ["v ü", "7"])
        #expect(database.retained == [2])
        #expect(database.subscriptions.map(\.filter) == ["q/+", "#", "$share/g/q/#", "$share/g/q/#"])
        #expect(database.subscriptions[0].noLocal && database.subscriptions[0].retainAsPublished)
        #expect(database.subscriptions[0].identifier == 77)
        #expect(database.clientMessages.map(\.state) == [.waitForPuback, .waitForPubcomp, .queued, .waitForPubrel])
        #expect(database.clientMessages.map(\.direction) == [.outgoing, .outgoing, .outgoing, .incoming])
        #expect(database.clientMessages[0].subscriptionIdentifiers == [77] && database.clientMessages[0].isDuplicate)
        #expect(database.wills.map(\.client) == ["five", "dying", "gone"])
        #expect(database.wills[0].will.properties.willDelayInterval == 5)
        #expect(database.wills.map(\.dueAt) == [nil, 1_795_280_000, nil])
    }

    @Test func `it becomes sessions, queues, wills and retained messages`() throws {
        try change(Self.filling)
        let rows = ImportedRows(of: try read(), listenerPorts: [8883, 1883])
        #expect(rows.unreadable == 0)
        #expect(rows.counts.sessions == 4 && rows.counts.subscriptions == 4 && rows.counts.leftOut == 0)
        #expect(rows.counts.receivedMessages == 1 && rows.counts.retainedMessages == 2)
        let sessions = Dictionary(uniqueKeysWithValues: rows.sessions.values.map { ("\($0.clientIdentifier)", $0) })
        #expect(sessions["five"]?.isConnected == true && sessions["five"]?.will?.payload == Array("by".utf8))
        #expect(sessions["five"]?.listener == .place(1) && sessions["away"]?.listener == .place(0))
        #expect(sessions["away"]?.endsAt == 1_795_282_346_000 && sessions["away"]?.will == nil)
        #expect(sessions["dying"]?.willDueAt == 1_795_280_000_000 && sessions["dying"]?.endsAt == 1_795_282_000_000)
        #expect(sessions["old"]?.expiryIntervalSeconds == .max)
        let queued = rows.queue(of: "five").map { rows.message(of: $0.entry)?.topic }
        // Its own QoS 2 message is No Local; the will of a client without a session is published.
        #expect(queued == [Array("q/1".utf8), Array("12".utf8), Array("q/will".utf8)])
        // Of the share group one gets each.
        #expect(rows.queue(of: "away").count + rows.queue(of: "old").count == 3)
        #expect(rows.retained.map { String(decoding: $0.message.topic, as: UTF8.self) } == ["12", "q/will"])
    }

    @Test func `a log beside the file is read, and both stay as they are`() throws {
        try change(Self.filling)
        let connection = try SQLiteConnection(path, .write)
        try connection.execute("PRAGMA wal_autocheckpoint = 0; DELETE FROM client_msgs WHERE client_id = 'away'")
        let database = try read()
        #expect(database.clientMessages.count == 3 && !database.wasWrittenAtEnd)
        #expect((DiskFile.size(path + "-wal") ?? 0) > 0)
        _ = connection
    }

    @Test func `nothing is left beside a file without a log`() throws {
        _ = try read()
        #expect(StoreHome.names(in: home.path) == ["mosquitto.sqlite3"])
    }

    @Test func `a database of the first schema, without wills, is read`() throws {
        try DiskFile.remove(path)
        try make(Self.schema + Self.version("1", "0"))
        #expect(try read().wills.isEmpty)
    }

    @Test(arguments: [
        ("DROP TABLE retains", "this is not a database of mosquitto's persist-sqlite plug-in: it has no table retains"),
        ("DELETE FROM version_info", "its table version_info does not say which schema it has"),
        ("UPDATE version_info SET major = 2", "its schema has version 2.1, and this program reads versions 1.0 and 1.1"),
        (
            "UPDATE clients SET client_id = '' WHERE client_id = 'old'",
            "in row 3 of the table clients: its client_id is no client identifier"
        ),
        ("UPDATE clients SET listener_port = 70000", "in row 1 of the table clients: its listener port is 70000"),
        (
            "UPDATE subscriptions SET topic = 'a/#/b' WHERE client_id = 'five'",
            "in row 1 of the table subscriptions: its topic is no topic filter"
        ),
        (
            "UPDATE subscriptions SET subscription_options = 3",
            "in row 1 of the table subscriptions: its subscription_options are 3"
        ),
        ("UPDATE base_msgs SET qos = 3 WHERE store_id = 2", "in row 2 of the table base_msgs: its qos is 3"),
        ("UPDATE base_msgs SET topic = 'a/+' WHERE store_id = 2", "in row 2 of the table base_msgs: its topic is no topic"),
        ("UPDATE client_msgs SET direction = 2", "in row 1 of the table client_msgs: its direction is 2"),
        ("UPDATE client_msgs SET state = 12", "in row 1 of the table client_msgs: its state is 12"),
        ("UPDATE wills SET retain = 4", "in row 1 of the table wills: its retain is 4"),
        (
            "UPDATE base_msgs SET properties = '[{\"identifier\":\"colour\",\"value\":1}]' WHERE store_id = 3",
            "in row 3 of the table base_msgs: its properties are not what the plug-in writes: a property is none of a message"
        ),
        (
            "UPDATE base_msgs SET properties = '[{' WHERE store_id = 3",
            "in row 3 of the table base_msgs: its properties are not what the plug-in writes: malformed JSON"
        ),
    ])
    func `what no plug-in would have written is an error that says where it is`(_ sql: String, _ complaint: String) throws {
        try change(Self.filling)
        try change(sql)
        #expect(refusal() == complaint)
    }

    @Test func `a damaged file is an error, wherever the damage is, and never a trap`() throws {
        try change(Self.filling)
        let whole = try WholeFile.bytes(of: path, bytesMax: 1 << 20)
        for position in stride(from: 0, to: whole.count, by: 97) {
            var bytes = whole
            for place in position..<min(position + 16, whole.count) { bytes[place] ^= 0xA5 }
            try write(bytes)
            // Damage of a payload, or of what nobody uses, is not seen.
            _ = refusal()
        }
        for count in [0, 1, 100, 4096, whole.count / 2] {
            try write(Array(whole[..<count]))
            #expect(refusal() != "", "\(count) bytes")
        }
    }
}
