import Configuration
import Testing

/// What follows "Error: m.conf:LINE: NAME: " for the last of some lines.
@Suite struct RefusedOptionTests {
    @Test(arguments: globalLines + listenerLines + bridgeLines + topicLines)
    func `a wrong value is refused with what was expected`(_ lines: String, _ message: String) {
        let number = lines.split(separator: "\n").count
        let name = lines.split(separator: "\n").last?.split(separator: " ").first ?? ""
        let errors = read(lines).diagnostics.filter { $0.severity == .error && $0.line == number }
        #expect(errors.map(\.description) == ["Error: m.conf:\(number): \(name): \(message)"])
    }

    static let globalLines: [(String, String)] = [
        ("persistence yes", #"found "yes", expected true or false."#),
        ("persistence True", #"found "True", expected true or false."#),
        ("persistence 2", #"found "2", expected true or false."#),
        ("persistence", "Empty persistence value in configuration; expected persistence true|false."),
        ("password_file", "Empty password_file value in configuration; expected password_file PATH."),
        (
            "martlet_jwt_algorithms RS256 none",
            #"found "RS256 none", expected one or more of RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519 Ed448 "#
                + "HS256 HS384 HS512, with blanks between them."
        ),
        ("martlet_jwt_keys ftp://a/b", #"found "ftp://a/b", expected a file, or a URL that begins with https:// or http://."#),
        ("martlet_ldap_url a.example", #"found "a.example", expected a URL that begins with ldap://, ldaps:// or ldapi://."#),
        ("martlet_ldap_starttls yes", #"found "yes", expected true or false."#),
        ("martlet_introspection_url a", #"found "a", expected a URL that begins with https:// or http://."#),
        (
            "martlet_jwt_require =x",
            "there is no = between an option and its value. Write: martlet_jwt_require x."
        ),
        ("sys_interval -1", #"found "-1", expected a number from 0 to 65535."#),
        ("sys_interval 10s", #"found "10s", expected a number from 0 to 65535."#),
        ("max_packet_size 19", #"found "19", expected a number from 20 to 268435460."#),
        ("max_inflight_messages 65536", #"found "65536", expected a number from 0 to 65535."#),
        (
            "max_queued_messages 99999999999999999999",
            #"found "99999999999999999999", expected a number from 0 to 1125899906842624."#
        ),
        ("martlet_output_bytes_max 65535", #"found "65535", expected a number from 65536 to 1073741824."#),
        ("martlet_output_bytes_max 1073741825", #"found "1073741825", expected a number from 65536 to 1073741824."#),
        ("global_max_clients -2", #"found "-2", expected a number from -1 to 1125899906842624."#),
        (
            "persistent_client_expiration 14",
            #"found "14", expected a number from 1 on and one of the units s, h, d, w, m and y, such as 14d."#
        ),
        (
            "persistent_client_expiration 0d",
            #"found "0d", expected a number from 1 on and one of the units s, h, d, w, m and y, such as 14d."#
        ),
        (
            "persistent_client_expiration 9223372036854775807y",
            #"found "9223372036854775807y", expected a number from 1 on and one of the units s, h, d, w, m and y, such as 14d."#
        ),
        (
            "persistence_file a/b.db",
            #"found "a/b.db", expected a file's name without a slash; persistence_location names the directory."#
        ),
        ("martlet_durability interval", #"found "interval", expected commit, none, or interval and 1 to 86400 seconds."#),
        ("martlet_durability interval 0", #"found "interval 0", expected commit, none, or interval and 1 to 86400 seconds."#),
        ("martlet_durability commit 3", #"found "commit 3", expected commit, none, or interval and 1 to 86400 seconds."#),
        ("martlet_store_bytes_max -1", #"found "-1", expected a number from 0 to 1125899906842624."#),
        ("martlet_presence_events yes", #"found "yes", expected none, connections or all."#),
        (
            "martlet_cluster_servers nats://a,,b",
            #"found "nats://a,,b", expected one comma between two addresses, and none elsewhere: nats://a,b."#
        ),
        (
            "martlet_cluster_name c\nmartlet_cluster_servers nats://a, nats://b,",
            #"found "nats://a, nats://b,", expected one comma between two addresses, and none elsewhere: nats://a,nats://b."#
        ),
        (
            "martlet_cluster_servers ,",
            #"found ",", expected addresses with commas between them, such as nats://10.0.0.1:4222,nats://10.0.0.2:4222."#
        ),
        (
            "martlet_cluster_monitors http://a,,http://b",
            #"found "http://a,,http://b", expected one comma between two addresses, and none elsewhere: http://a,http://b."#
        ),
        ("martlet_cluster_servers nats://a", "it needs martlet_cluster_name too, the same name on all nodes."),
        ("martlet_cluster_name a.b", #"found "a.b", expected up to 64 letters, digits, - and _."#),
        ("martlet_cluster_partitions 65", #"found "65", expected a number from 1 to 64."#),
        ("martlet_cluster_session_wait -1", #"found "-1", expected a number from 0 to 86400."#),
        ("martlet_cluster_mode fast", #"found "fast", expected synced or replicated."#),
        (
            "martlet_cluster_monitors https://a",
            #"found "https://a", expected addresses with commas between them, such as http://10.0.0.1:8222,http://10.0.0.2:8222."#
        ),
        ("martlet_cluster_replicas 6", #"found "6", expected a number from 1 to 5."#),
        (
            "martlet_node_address a b:1883",
            #"found "a b:1883", expected a host with or without a port, such as broker-1.example:1883 or [::1]:1883."#
        ),
        (
            "martlet_node_address a:0",
            #"found "a:0", expected a host with or without a port, such as broker-1.example:1883 or [::1]:1883."#
        ),
        ("martlet_cluster_detached stop", #"found "stop", expected refuse or local."#),
        (
            "martlet_cluster_name c\nmartlet_cluster_servers a\nmartlet_cluster_user u",
            "martlet_cluster_user and martlet_cluster_password need each other."
        ),
        (
            "martlet_cluster_name c\nmartlet_cluster_servers a\nmartlet_cluster_token t\nmartlet_cluster_nkey_file k",
            "give one login only: a user, a token or an NKey."
        ),
        (
            "martlet_cluster_name c\nmartlet_cluster_servers a\nmartlet_cluster_certfile c",
            "martlet_cluster_certfile and martlet_cluster_keyfile need each other."
        ),
        (
            "martlet_node_name a/b",
            #"found "a/b", expected one level of a topic, up to 255 bytes without / + # and control characters."#
        ),
        (
            "martlet_node_name \(String(repeating: "n", count: 256))",
            "found \"\(String(repeating: "n", count: 80))…\", expected one level of a topic, up to 255 bytes without / + # and "
                + "control characters."
        ),
        (
            "martlet_slow_client drop 5s",
            #"found "drop 5s", expected log or disconnect, and 1 to 86400 seconds, such as log 30s."#
        ),
        (
            "martlet_slow_client log 0s",
            #"found "log 0s", expected log or disconnect, and 1 to 86400 seconds, such as log 30s."#
        ),
        (
            "martlet_ban_after 10 300s",
            #"found "10 300s", expected how often in how long, 1 to 100000 times in 1 to 86400 seconds, and for how long, "#
                + "1 to 31536000 seconds, such as 10/60s 300s."
        ),
        (
            "martlet_flapping 0/60s 300s",
            #"found "0/60s 300s", expected how often in how long, 1 to 100000 times in 1 to 86400 seconds, and for how long, "#
                + "1 to 31536000 seconds, such as 10/60s 300s."
        ),
        (
            "martlet_flapping 15/60m 300s",
            #"found "15/60m 300s", expected how often in how long, 1 to 100000 times in 1 to 86400 seconds, and for how long, "#
                + "1 to 31536000 seconds, such as 10/60s 300s."
        ),
        ("martlet_queue_drop all", #"found "all", expected newest, oldest or refuse."#),
        ("martlet_session_owner share", #"found "share", expected discard or refuse."#),
        ("martlet_compat 1.6", #"found "1.6", expected 2.0 or 2.1."#),
        ("martlet_profile lan", #"found "lan", expected internet."#),
        ("martlet_log_format xml", #"found "xml", expected text or json."#),
        ("martlet_connect_timeout 0", #"found "0", expected a number from 1 to 3600."#),
        ("log_facility 8", #"found "8", expected a number from 0 to 7."#),
        ("log_dest elsewhere", #"found "elsewhere", expected stdout, stderr, syslog, topic, file PATH or none."#),
        ("log_dest file", "Empty log_dest file value in configuration; expected log_dest file PATH."),
        ("log_dest dlt", "this destination is not built in; use stdout, stderr, syslog, topic or file PATH."),
        (
            "log_type loud",
            #"found "loud", expected error, warning, notice, information, debug, subscribe, unsubscribe, websockets, internal, none, all."#
        ),
        (
            "auto_id_prefix 123456789012345678901234567890123456789012345678901",
            #"found "123456789012345678901234567890123456789012345678901", expected at most 50 bytes."#
        ),
        ("per_listener_settings maybe", #"found "maybe", expected true or false."#),
        ("port 0", #"found "0", expected a number from 1 to 65535."#),
        ("martlet_http_user ann", #"found "ann", expected a user's name, then viewer or admin."#),
        ("martlet_http_user ann root", #"found "ann root", expected a user's name, then viewer or admin."#),
        ("bind_address a b", #"found "a b", expected one address."#),
        (
            "plugin /usr/lib/other.so",
            #"found "/usr/lib/other.so", expected one of the plug-ins that are built in: mosquitto_dynamic_security, "#
                + "mosquitto_password_file, mosquitto_acl_file, mosquitto_persist_sqlite, go-auth."
        ),
        ("plugin_load x", #"found "x", expected NAME PATH."#),
        ("plugin_use x", #"no line plugin_load above it has named "x"."#),
        ("plugin_opt_x y", #"it belongs to a plug-in, after a line "plugin PATH"."#),
        ("include_dir /none", "Unable to open include_dir '/none'. No such file or directory."),
    ]

    static let listenerLines: [(String, String)] = [
        ("listener x", #"found "x", expected a port from 0 to 65535."#),
        ("listener 65536", #"found "65536", expected a port from 0 to 65535."#),
        ("listener 0", "port 0 needs the path of a Unix socket after it."),
        ("listener 0 /\(String(repeating: "x", count: 107))", "the path of the Unix socket is longer than 107 bytes."),
        ("listener 1884 a b", #"found "a b", expected one address."#),
        ("listener 1884\nlistener 1884", "the listener of line 1 has the same address and port."),
        ("listener 1\nmax_qos 7", #"found "7", expected 0, 1 or 2."#),
        ("listener 1\nprotocol mqttsn", #"found "mqttsn", expected mqtt, websockets or http_api."#),
        ("listener 1\naccept_protocol_versions 3,6", #"found "3,6", expected some of 3, 4 and 5 with commas between them."#),
        ("listener 1\naccept_protocol_versions ,", #"found ",", expected some of 3, 4 and 5 with commas between them."#),
        ("listener 1\nsocket_domain ipv5", #"found "ipv5", expected ipv4 or ipv6."#),
        (
            "listener 1\nmount_point a/#",
            ##"found "a/#", expected a text without the wildcards + and #, in which %u is the user name, %c the client identifier, and %{client_attrs.NAME} an attribute of the login."##
        ),
        (
            "listener 1\nmount_point %{floor}/",
            ##"found "%{floor}/", expected a text without the wildcards + and #, in which %u is the user name, %c the client identifier, and %{client_attrs.NAME} an attribute of the login."##
        ),
        ("listener 1\nenable_proxy_protocol 3", #"found "3", expected 1 or 2."#),
        (
            "listener 1\nmartlet_proxy_trusted proxy.example",
            #"found "proxy.example", expected IPv4 or IPv6 addresses and networks, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32."#
        ),
        (
            "listener 1\nmartlet_proxy_trusted 10.0.0.0/33",
            #"found "10.0.0.0/33", expected IPv4 or IPv6 addresses and networks, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32."#
        ),
        (
            "listener 1\nmartlet_proxy_trusted ::1/129",
            #"found "::1/129", expected IPv4 or IPv6 addresses and networks, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32."#
        ),
        (
            "listener 1\nmartlet_proxy_trusted 10.0.0.0/8/8",
            #"found "10.0.0.0/8/8", expected IPv4 or IPv6 addresses and networks, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32."#
        ),
        (
            "listener 1\nmartlet_proxy_trusted 10.0.0.0/x",
            #"found "10.0.0.0/x", expected IPv4 or IPv6 addresses and networks, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32."#
        ),
        (
            "listener 1\nmartlet_allow_from 10.0.0.1 home.example",
            #"found "10.0.0.1 home.example", expected IPv4 or IPv6 addresses and networks, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32."#
        ),
        (
            "listener 1\nmartlet_certificate_username subject 2",
            #"found "subject 2", expected cn, subject, san-uri, san-dns, san-email or spiffe, and perhaps which one of several, 1 to 100, such as san-uri 1."#
        ),
        (
            "listener 1\nmartlet_certificate_username cn",
            "it needs TLS and certificates of the clients: certfile, keyfile, cafile and require_certificate true."
        ),
        (
            "listener 1\nmartlet_certificate_clientid san",
            #"found "san", expected cn, subject, san-uri, san-dns, san-email or spiffe, and perhaps which one of several, 1 to 100, such as san-uri 1."#
        ),
        (
            "listener 1\nmartlet_certificate_group ou=Pumps",
            #"found "ou=Pumps", expected a part of the certificate, such as ou, or a part, its value and the group, such as ou=Pumps pumps."#
        ),
        (
            "listener 1\nmartlet_certificate_role ou",
            "it needs TLS and certificates of the clients: certfile, keyfile, cafile and require_certificate true."
        ),
        (
            "listener 1\ncertfile c\nkeyfile k\ncafile a\nrequire_certificate true\nmartlet_certificate_group ou",
            "it needs dynamic security, which has the groups and roles: plugin mosquitto_dynamic_security.so, and plugin_opt_config_file PATH."
        ),
        (
            "listener 1\nmartlet_certificate_attribute a b",
            #"found "a b", expected a name and a part of the certificate, such as department ou."#
        ),
        ("listener 1\nmartlet_certificate a", #"found "a", expected two files, a certificate and its key."#),
        ("listener 1\ntls_version tlsv1.1", #"found "tlsv1.1", expected tlsv1.2 or tlsv1.3."#),
        ("listener 1\nmax_topic_alias 65536", #"found "65536", expected a number from 0 to 65535."#),
    ]

    static let bridgeLines: [(String, String)] = [
        ("cleansession true", #"it belongs in a bridge's section, after a line "connection NAME"."#),
        ("connection b\naddress h:x", #"found "h:x", expected HOST or HOST:PORT."#),
        ("connection b\naddress a :1", #"found ":1", expected HOST or HOST:PORT."#),
        ("connection b\naddress [::1", #"found "[::1", expected HOST or HOST:PORT."#),
        ("connection b\naddress [::1]1", #"found "[::1]1", expected HOST or HOST:PORT."#),
        ("connection b\naddress h:0", #"found "h:0", expected HOST or HOST:PORT."#),
        ("connection b\nmartlet_bridge_max_queued_messages -1", #"found "-1", expected a number from 0 to 1125899906842624."#),
        ("connection b\nmartlet_bridge_connections 0", #"found "0", expected a number from 1 to 64."#),
        ("connection b\nmartlet_bridge_connections 65", #"found "65", expected a number from 1 to 64."#),
        ("connection b\nmartlet_bridge_max_queued_bytes all", #"found "all", expected a number from 0 to 1125899906842624."#),
        ("connection b\nmartlet_bridge_queue_drop none", #"found "none", expected newest, oldest or refuse."#),
        ("connection b\nstart_type manual", #"found "manual", expected automatic, lazy or once."#),
        ("connection b\nkeepalive_interval 65536", #"found "65536", expected a number from 5 to 65535."#),
        (
            "connection b\nrestart_timeout -1",
            #"found "-1", expected one to three numbers of seconds, the second not below the first."#
        ),
        ("connection b\nbridge_protocol_version 5", #"found "5", expected mqttv31, mqttv311 or mqttv50."#),
        ("connection b\nbridge_psk 0g", #"found "***", expected an even number of hexadecimal digits."#),
        (
            "connection b\nbridge_tcp_keepalive 1 2",
            #"found "1 2", expected three numbers: idle seconds, interval seconds and count."#
        ),
        (
            "connection b\nrestart_timeout 9 3",
            #"found "9 3", expected one to three numbers of seconds, the second not below the first."#
        ),
    ]

    static let topicLines: [(String, String)] = [
        ("connection b\ntopic \"a", "a double quote is not closed."),
        ("connection b\ntopic a inout", #"found "inout", expected the direction out, in or both."#),
        ("connection b\ntopic a in 3", #"found "3", expected the QoS 0, 1 or 2."#),
        ("connection b\ntopic a in 0 l r x", #"found "x" after the remote prefix, expected the end of the line."#),
        ("connection b\ntopic a#", ##"found "a#", expected a topic filter, with + and # as whole levels and # as the last one."##),
        (
            "connection b\ntopic #/a",
            ##"found "#/a", expected a topic filter, with + and # as whole levels and # as the last one."##
        ),
        (
            "connection b\ntopic a+/b",
            #"found "a+/b", expected a topic filter, with + and # as whole levels and # as the last one."#
        ),
        ("connection b\ntopic \"\"", "an empty pattern needs a local and a remote prefix."),
        ("connection b\ntopic \"\" in 0 l", "an empty pattern needs a local and a remote prefix."),
        ("connection b\ntopic a in 0 l/+", #"found "l/+", expected a prefix without the wildcards + and #."#),
    ]
}
