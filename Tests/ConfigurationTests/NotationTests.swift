import Configuration
import Testing

/// Lines as real configuration files of mosquitto have them, and as other programs' files would.
@Suite struct NotationTests {
    // MARK: Comments

    @Test func `a comment may stand behind numbers, words, booleans, addresses and names of bridges`() {
        let result = read(
            """
            listener 1 127.0.0.1 # mine
            allow_anonymous true # everybody
            max_inflight_messages 5 # few
            log_type subscribe   # log subscriptions
            log_dest stdout # here
            persistent_client_expiration 2d # days
            connection b # the other one
            address h:1 i:2 # two
            topic a out 0 l/ r/ # as mosquitto has it
            restart_timeout 5 30 # seconds
            """)
        #expect(result.texts == [])
        let configuration = result.configuration
        #expect(configuration.listeners.map(\.endpoint) == [.tcp(port: 1, host: "127.0.0.1")])
        #expect(configuration.logging.types == .subscribe)
        #expect(configuration.bridges.map(\.name) == ["b"])
        #expect(configuration.bridges[0].addresses.map(\.description) == ["h:1", "i:2"])
        #expect(configuration.bridges[0].schedule.restart == BridgeRestart(baseSeconds: 5, capSeconds: 30))
        #expect(result.locations.opening(ofBridge: "b")?.line == 7)
    }

    @Test(arguments: [
        ("topic a # x", BridgeTopic(pattern: "a")), ("topic a in # x", BridgeTopic(pattern: "a", direction: .in)),
        ("topic # both 2 # x", BridgeTopic(pattern: "#", direction: .both, qos: 2)),
        ("topic a out 0 l/ # x", BridgeTopic(pattern: "a", localPrefix: "l/")),
    ])
    func `a comment behind a topic is one, with a warning that mosquitto would not take it for one`(
        _ line: String, _ topic: BridgeTopic
    ) {
        let result = read("connection b\naddress h\n\(line)\n")
        #expect(
            result.texts == [
                ##"Warning: m.conf:3: topic: "# x" is taken for a comment; mosquitto would take it for a part of the line."##
            ])
        #expect(result.configuration.bridges[0].topics == [topic])
    }

    @Test func `in a path, a name or a text a comment is none, and that is said`() {
        let result = read("user me # too\npid_file /run/m # mine\nlistener 0 /run/s # x\nallow_anonymous true\n")
        #expect(result.configuration.general.userName == "me # too")
        #expect(result.configuration.listeners.map(\.endpoint) == [.unixSocket(path: "/run/s # x")])
        let sentence = "what follows # is a part of the value; a comment has a line of its own."
        #expect(result.texts == ["Warning: m.conf:1: user: \(sentence)", "Warning: m.conf:2: pid_file: \(sentence)"])
    }

    // MARK: Values

    @Test(arguments: [("IN", BridgeTopic.Direction.in), ("Both", .both), ("oUt", .out)])
    func `the direction of a topic may have letters of any case`(_ word: String, _ direction: BridgeTopic.Direction) {
        let result = read("connection b\naddress h\ntopic a \(word)\n")
        #expect(result.texts == [] && result.configuration.bridges[0].topics.map(\.direction) == [direction])
    }

    @Test func `per_listener_settings may be given again with the same value, and not with another`() {
        let deprecated =
            "Warning: m.conf:1: per_listener_settings: it is deprecated; write listener_allow_anonymous, listener_auto_id_prefix or plugin_use in a listener's section instead."
        let same = read(
            "per_listener_settings true\nlistener 1\nallow_anonymous true\nper_listener_settings true # again\nlistener 2\nallow_anonymous true\n"
        )
        #expect(same.texts == [deprecated])
        let other = read("per_listener_settings false\nlistener 1\nper_listener_settings true\nallow_anonymous true\n")
        #expect(
            other.texts == [
                deprecated,
                "Error: m.conf:3: per_listener_settings: Duplicate per_listener_settings value in configuration, given before on line 1.",
            ])
    }

    @Test(arguments: [
        ("keepalive_interval 3", "3 is too low; 5 is used."), ("keepalive_interval -1", "-1 is too low; 5 is used."),
        ("restart_timeout 0", "0 is too low; 1 is used."), ("restart_timeout 0 30", "0 is too low; 1 is used."),
        ("threshold 0", "0 is too low; 1 is used."), ("idle_timeout 0", "0 is too low; 1 is used."),
    ])
    func `what is too low for a bridge is raised, with a warning`(_ line: String, _ sentence: String) {
        let result = read("connection b\naddress h\ntopic a\n\(line)\n")
        let name = line.split(separator: " ")[0]
        #expect(result.texts == ["Warning: m.conf:4: \(name): \(sentence)"])
        let bridge = result.configuration.bridges[0]
        #expect(
            [
                bridge.keepAliveSeconds, bridge.schedule.restart.baseSeconds, bridge.schedule.lazyThresholdMessages,
                bridge.schedule.idleTimeoutSeconds,
            ]
                == [
                    name == "keepalive_interval" ? 5 : 60, name == "restart_timeout" ? 1 : 5, name == "threshold" ? 1 : 10,
                    name == "idle_timeout" ? 1 : 60,
                ])
    }

    @Test(arguments: ["autosave_interval seconds 30", "autosave_interval 30s", "autosave_on_changes maybe", "retry_interval x"])
    func `an option without effect may have any value`(_ line: String) {
        let result = read(line)
        #expect(result.texts.count == 1 && result.texts[0].contains("it has no effect here"))
    }

    // MARK: Quotes and signs

    @Test(arguments: ["'", "\""])
    func `a path in quotes is the one between them, with a warning`(_ quote: String) {
        let path = "\(quote)/a b\(quote)"
        let result = read(
            "log_dest file \(path)\npassword_file \(path)\npersistence_location \(path)\nlistener 1 \(path)\nallow_anonymous true\n"
                .replacing("/a b\(quote)\nallow", with: "::1\(quote)\nallow"))
        #expect(result.configuration.logging.destinations == [.file(path: "/a b")])
        #expect(result.configuration.security.passwordFile == "/a b")
        #expect(result.configuration.persistence.location == "/a b")
        #expect(result.configuration.listeners.map(\.endpoint) == [.tcp(port: 1, host: "::1")])
        #expect(!result.hasErrors && result.texts.count == 4)
        #expect(result.texts.allSatisfy { $0.contains("the quotes are taken off; mosquitto would take them for a part of") })
        #expect(result.locations.line(of: "password_file", value: "/a b")?.line == 2)
    }

    @Test(arguments: [
        ("allow_anonymous \"true\"", ##"found ""true"", expected true or false. Write it without quotes: allow_anonymous true."##),
        ("listener '1883'", "found \"'1883'\", expected a port from 0 to 65535. Write it without quotes: listener 1883."),
        (
            "log_type \"error\"",
            ##"found ""error"", expected error, warning, notice, information, debug, subscribe, unsubscribe, websockets, internal, none, all. Write it without quotes: log_type error."##
        ),
        ("allow_anonymous = true", "there is no = between an option and its value. Write: allow_anonymous true."),
        ("listener = 1883", "there is no = between an option and its value. Write: listener 1883."),
        ("password_file = /p", "there is no = between an option and its value. Write: password_file /p."),
        ("max_qos =", "there is no = between an option and its value. Write: max_qos 0 to 2."),
    ])
    func `quotes and equals signs are told with what to type`(_ line: String, _ message: String) {
        let errors = read(line).texts.filter { $0.hasPrefix("Error") }
        #expect(errors == ["Error: m.conf:1: \(line.split(separator: " ")[0]): \(message)"])
    }

    @Test(arguments: [
        ("allow_anonymous=true", "allow_anonymous true"), ("listener: 1883", "listener 1883"),
        ("remote_password=secret", "remote_password TEXT"), ("max_qos:", "max_qos 0 to 2"),
    ])
    func `a name with a sign at its end is told with what to type, and without a secret`(_ line: String, _ right: String) {
        let name = line.split(separator: " ")[0]
        #expect(
            read(line).texts == [
                "Error: m.conf:1: Unknown configuration variable '\(name)'. A blank is between an option and its value. Write: \(right)."
            ] || line.contains("secret"))
    }

    @Test func `quotes around a name or a text belong to it, and that is said`() {
        let result = read("connection b\naddress h\ntopic a\nremote_username \"u\"\n")
        #expect(result.configuration.bridges[0].remote.userName == "\"u\"")
        #expect(
            result.texts == [
                "Warning: m.conf:4: remote_username: the quotes are a part of the value; write it without them if they are not meant."
            ])
    }

    // MARK: Plug-ins of others

    @Test func `go-auth's lines are read under either name, and say of each what has no effect`() throws {
        for (plugin, prefix) in [("auth_plugin", "auth_opt_"), ("plugin", "plugin_opt_")] {
            let result = read(
                """
                listener 1
                allow_anonymous false
                \(plugin) /usr/share/mosquitto/go-auth.so
                \(prefix)backends files, http
                \(prefix)hasher pbkdf2
                \(prefix)cache true
                \(prefix)auth_cache_seconds 300
                \(prefix)files_password_path /p
                \(prefix)files_acl_path /a
                \(prefix)http_host users:8080
                \(prefix)http_getuser_uri /user
                \(prefix)http_with_tls true
                \(prefix)http_verify_peer false
                """)
            #expect(!result.hasErrors, "\(result.texts)")
            let security = result.configuration.listeners[0].security
            let goAuth = try #require(security.logins.goAuth)
            #expect(security.passwordFile == "/p" && security.accessControlFile == "/a" && security.logins.isChain)
            #expect(goAuth.backEnds == [.files, .http] && goAuth.host == "users" && goAuth.port == 8080)
            #expect(goAuth.cachesAnswers && goAuth.loginCacheSeconds == 300 && goAuth.usesTLS && !goAuth.verifiesPeer)
            #expect(
                result.texts.contains {
                    $0.hasSuffix("\(prefix)hasher: it has no effect here: hashes say themselves how they were made.")
                })
            #expect(result.texts.contains { $0.contains("anybody between here and users can read the passwords") })
        }
    }

    @Test func `go-auth's back ends are asked what they are registered for`() throws {
        let lines = """
            listener 1
            auth_plugin go-auth.so
            auth_opt_backends files,http
            auth_opt_files_acl_path /a
            auth_opt_http_superuser_uri /super
            auth_opt_http_aclcheck_uri /acl

            """
        let result = read(lines + "auth_opt_files_register acl\nauth_opt_http_register user\nauth_opt_http_getuser_uri /user")
        #expect(!result.hasErrors, "\(result.texts)")
        let security = result.configuration.listeners[0].security
        let goAuth = try #require(security.logins.goAuth)
        #expect(security.passwordFile == nil && security.accessControlFile == "/a" && goAuth.userURI == "/user")
        #expect(goAuth.superuserURI == nil && goAuth.accessURI == nil && !goAuth.asks(.http, .acl) && goAuth.asks(.files, .acl))
        let nobody = read(lines + "auth_opt_files_register acl\nauth_opt_http_register superuser").texts
        #expect(nobody.contains { $0.hasSuffix("plugin: no back end is registered for user: nobody could log in.") }, "\(nobody)")
        let wrong = read(lines + "auth_opt_http_register users\n").texts
        #expect(
            wrong.contains {
                $0.hasSuffix(#"found "users", expected user, superuser, acl, or several of them with commas between."#)
            })
    }

    @Test(arguments: GoAuthConfiguration.BackEnd.allCases.map(\.rawValue))
    func `each back end of go-auth can be registered for what it is asked`(backEnd: String) {
        // As go-auth has it: its options of `postgres` begin with pg_.
        let prefix = backEnd == "postgres" ? "pg" : backEnd
        let lines = "auth_plugin go-auth.so\nauth_opt_backends \(backEnd)\nauth_opt_\(prefix)_register superuser\nlistener 1\n"
        let result = read(lines)
        #expect(!result.texts.contains { $0.contains("go-auth has no such option") }, "\(result.texts)")
        #expect(result.texts.contains { $0.contains("no back end is registered for user") })
    }

    @Test(
        arguments: [
            ("redis", "redis_register superuser", "auth_opt_redis_register has no effect: a database or directory is asked"),
            (
                "sqlite", "sqlite_register superuser, acl",
                "auth_opt_sqlite_register has no effect: a database or directory is asked"
            ),
            ("ldap", "ldap_register acl", "auth_opt_ldap_register has no effect: a database or directory is asked"),
            ("postgres", "pg_register user,superuser", "there is no auth_opt_pg_superquery, or superusers are turned off."),
            (
                "sqlite", "sqlite_register user,acl",
                "auth_opt_sqlite_register says acl, which has no effect: there is no auth_opt_sqlite_aclquery."
            ),
            ("http", "http_register user,superuser", "there is no auth_opt_http_superuser_uri, or superusers are turned off."),
            ("http", "http_register user,acl", "there is no auth_opt_http_aclcheck_uri."),
            (
                "files", "files_register user,superuser",
                "auth_opt_files_register says superuser, which has no effect: its files know no superusers."
            ),
            ("files", "mysql_register user", nil), ("files", "redis_register user", "auth_opt_backends does not name redis."),
            ("redis", "redis_register user,superuser,acl", nil), ("redis", "redis_register user\nauth_opt_files_register acl", nil),
        ] as [(String, String, String?)])
    func `what go-auth is registered for in vain is said`(backEnd: String, line: String, words: String?) {
        let others = backEnd == "files" ? "" : "files,"
        let texts = read(
            "listener 1\nauth_plugin go-auth.so\nauth_opt_backends \(others)\(backEnd)\nauth_opt_files_password_path /p\n"
                + "auth_opt_files_acl_path /a\nauth_opt_\(line)\n"
        ).texts
        let warnings = texts.filter { $0.hasPrefix("Warning: m.conf:2: plugin: ") && $0.contains("_register") }
        #expect(warnings.count == (words == nil ? 0 : 1), "\(texts)")
        #expect(words.map { words in warnings.allSatisfy { $0.contains(words) } } ?? true, "\(texts)")
    }

    @Test func `what go-auth would do with names of users, and is not done, is an error; what is not needed is said`() {
        let lines = "auth_plugin go-auth.so\nauth_opt_backends redis\nlistener 1\n"
        for option in ["strip_prefix", "use_clientid_as_username"] {
            #expect(read("\(lines)auth_opt_\(option) true\n").texts.contains { $0.contains("found \"true\", expected false: ") })
            #expect(!read("\(lines)auth_opt_\(option) false\n").hasErrors)
        }
        for option in [
            "pg_hasher", "redis_hasher_cost", "files_hasher_salt_encoding", "hasher", "cache_host", "exhaust_backend_first",
        ] {
            let texts = read("\(lines)auth_opt_\(option) 1\n").texts
            #expect(texts.contains { $0.contains(option) && !$0.contains("no such option") }, "\(texts)")
        }
    }

    @Test func `a back end has a prefix of its own only if each of them has one`() throws {
        func prefixes(_ text: String) -> [String]? {
            let lines = "listener 1\nauth_plugin go-auth.so\nauth_opt_backends redis, ldap\nauth_opt_check_prefix true\n"
            let result = read("\(lines)auth_opt_prefixes \(text)\n")
            return result.configuration.listeners[0].security.logins.goAuth?.prefixes?.map(\.prefix)
        }
        #expect(prefixes("a, b") == ["a", "b"])
        #expect(prefixes("a") == nil)
    }

    @Test func `a back end that is not asked for topics lets nobody do everything`() {
        let lines = """
            auth_plugin go-auth.so
            auth_opt_backends files,sqlite
            auth_opt_files_register user
            auth_opt_files_password_path /p
            auth_opt_sqlite_source /u.db
            auth_opt_sqlite_userquery SELECT 1
            auth_opt_sqlite_aclquery SELECT 2
            listener 1

            """
        #expect(
            read(lines).texts.contains { $0.hasPrefix("Error: m.conf:1: plugin: nothing bounds the users of the back end files:") })
        for bound in ["acl_file /own\n" + lines, lines.replacing("files_register user", with: "files_acl_path /a")] {
            #expect(!read(bound).hasErrors, "\(read(bound).texts)")
        }
    }

    @Test func `an access file beside go-auth binds everybody, and the reader is told`() throws {
        let result = read(
            """
            acl_file /own
            auth_plugin go-auth.so
            auth_opt_backends files,http
            auth_opt_files_password_path /p
            auth_opt_files_acl_path /a
            auth_opt_http_getuser_uri /user
            auth_opt_http_superuser_uri /super
            listener 1
            """)
        let security = result.configuration.listeners[0].security
        #expect(security.passwordFile == "/p" && security.accessControlFile == "/own")
        #expect(security.logins.goAuth?.superuserURI == nil && security.logins.goAuth?.userURI == "/user")
        #expect(
            result.texts.contains(
                "Warning: m.conf:2: plugin: acl_file /own binds everybody here: go-auth's own access file, superusers and access queries are not asked."
            ), "\(result.texts)")
    }

    @Test func `go-auth's tokens stand in user names, signed with its secret`() throws {
        let lines = "listener 1\nplugin go-auth.so\nplugin_opt_backends jwt, files\nplugin_opt_files_password_path /p\n"
        let result = read(
            lines + "plugin_opt_jwt_mode files\nplugin_opt_jwt_secret s3\nplugin_opt_jwt_acl_path /a\n"
                + "plugin_opt_jwt_userfield Username\n")
        #expect(!result.hasErrors, "\(result.texts)")
        let security = result.configuration.listeners[0].security
        #expect(security.tokens.secret == "s3" && security.tokens.location == .userName && security.tokens.isEnabled)
        #expect(security.tokens.userNameClaim == "username" && security.tokens.requiredClaims.isEmpty)
        #expect(security.passwordFile == "/p" && security.accessControlFile == "/a")
        let missing = read(lines + "plugin_opt_jwt_mode remote").texts.filter { $0.hasPrefix("Error") }
        #expect(missing.count == 3 && missing.contains { $0.contains("expected files, with jwt_secret and jwt_acl_path") })
        #expect(missing.contains { $0.contains("needs auth_opt_jwt_secret") })
    }

    @Test func `go-auth's database of users is asked by its queries`() throws {
        let result = read(
            """
            listener 1
            plugin go-auth.so
            plugin_opt_backends sqlite
            plugin_opt_sqlite_source /u.db
            plugin_opt_sqlite_userquery SELECT pass FROM account WHERE username = ? limit 1
            plugin_opt_sqlite_superquery SELECT 1
            plugin_opt_sqlite_disable_superuser true
            """)
        #expect(!result.hasErrors, "\(result.texts)")
        let logins = result.configuration.listeners[0].security.logins
        #expect(logins.goAuth?.databasePath == "/u.db" && logins.isChain && logins.bringsRules)
        #expect(logins.goAuth?.userQuery == "SELECT pass FROM account WHERE username = ? limit 1")
        #expect(logins.goAuth?.superuserQuery == nil && logins.goAuth?.accessQuery == nil)
        let memory = read("listener 1\nplugin go-auth.so\nplugin_opt_backends sqlite\nplugin_opt_sqlite_source memory")
        #expect(memory.texts.contains { $0.contains("expected the path of a database") })
        #expect(memory.texts.contains { $0.contains("needs auth_opt_sqlite_userquery") })
    }

    @Test func `go-auth's servers of users are asked with its options`() throws {
        let result = read(
            """
            listener 1
            plugin go-auth.so
            plugin_opt_backends postgres, redis, ldap
            plugin_opt_disable_superuser true
            plugin_opt_pg_host db
            plugin_opt_pg_port 5433
            plugin_opt_pg_dbname d
            plugin_opt_pg_user u
            plugin_opt_pg_password p
            plugin_opt_pg_userquery SELECT $1
            plugin_opt_pg_superquery SELECT 1
            plugin_opt_pg_aclquery SELECT $2
            plugin_opt_pg_sslmode require
            plugin_opt_redis_host r
            plugin_opt_redis_db 0
            plugin_opt_redis_password q
            plugin_opt_ldap_url ldap://dir
            plugin_opt_ldap_user_dn ou=p
            plugin_opt_ldap_bind_dn cn=b
            plugin_opt_ldap_bind_password s
            plugin_opt_ldap_user_filter (uid=%s)
            """)
        #expect(!result.hasErrors, "\(result.texts)")
        let logins = result.configuration.listeners[0].security.logins
        let goAuth = try #require(logins.goAuth)
        #expect(logins.isChain && logins.bringsRules && goAuth.backEnds == [.postgres, .redis, .ldap])
        let database = goAuth.postgreSQL
        #expect(database.host == "db" && database.port == 5433 && database.database == "d" && database.user == "u")
        #expect(database.password == "p" && database.userQuery == "SELECT $1" && database.accessQuery == "SELECT $2")
        #expect(database.superuserQuery == nil && database.encryption == .require)
        let plain = "listener 1\nplugin go-auth.so\nplugin_opt_backends postgres\nplugin_opt_pg_host db\n"
        #expect(read(plain).configuration.listeners[0].security.logins.goAuth?.postgreSQL.encryption == .verifyFull)
        #expect(goAuth.redis.host == "r" && goAuth.redis.port == 6379 && goAuth.redis.database == 0)
        #expect(goAuth.redis.password == "q" && goAuth.redis.disablesSuperuser)
        #expect(
            goAuth.ldap.userFilter == "(uid=%u)" && goAuth.ldap.groupFilter == "(member=%u)" && goAuth.ldap.brokerPassword == "s")
        #expect(result.texts.contains { $0.contains("anybody between here and db can read what the database says") })
        #expect(result.texts.contains { $0.contains("write ldaps:// in auth_opt_ldap_url") })
    }

    @Test func `go-auth's other back ends are refused by name, and what is missing is said`() {
        func errors(_ lines: String) -> [String] {
            read("listener 1\nallow_anonymous false\nplugin go-auth.so\n\(lines)").texts.filter { $0.hasPrefix("Error") }
        }
        let mysql = errors("plugin_opt_backends http, mysql\nplugin_opt_http_getuser_uri /u")
        #expect(mysql.first?.contains("expected files, http, jwt, sqlite, postgres, redis, ldap: users of other back ends") == true)
        let missing = errors("plugin_opt_backends postgres, ldap")
        #expect(missing.count == 7 && missing.contains { $0.contains("the back end postgres needs auth_opt_pg_userquery") })
        #expect(missing.contains { $0.contains("the back end ldap needs auth_opt_ldap_bind_password") })
        #expect(errors("plugin_opt_backends redis") == [])
        #expect(errors("plugin_opt_backends redis\nplugin_opt_redis_mode cluster").first?.contains("expected single") == true)
        #expect(errors("plugin_opt_backends redis\nplugin_opt_redis_db x").first?.contains("the number of a database") == true)
        let prefer = "plugin_opt_backends redis\nplugin_opt_pg_sslmode prefer"
        #expect(errors(prefer).first?.contains("expected disable, require, verify-ca or verify-full") == true)
        #expect(errors("").count == 1 && errors("plugin_opt_backends http").first?.contains("http_getuser_uri") == true)
        #expect(errors("plugin_opt_backends files").first?.contains("files_password_path") == true)
        #expect(errors("plugin_opt_backends http\nplugin_opt_http_getuser_uri user").first?.contains("begins with /") == true)
    }

    @Test func `an auth-plug plug-in's lines say which options there are instead, and nothing of names that are outdated`() {
        let result = read(
            """
            listener 1
            auth_plugin /usr/lib/mosquitto-auth-plug.so
            auth_opt_backends files
            auth_opt_password_file /p
            auth_opt_acl_file /a
            """)
        #expect(
            result.texts == [
                "Warning: m.conf:1: listener: nobody can connect. Write password_file PATH (martlet passwd -c PATH USER makes one) or, to let everybody in here, listener_allow_anonymous true below it.",
                #"Error: m.conf:2: auth_plugin: found "/usr/lib/mosquitto-auth-plug.so", expected one of the plug-ins that are built in: mosquitto_dynamic_security, mosquitto_password_file, mosquitto_acl_file, mosquitto_persist_sqlite, go-auth. Of mosquitto-auth-plug's back ends there is "files": auth_opt_password_file is password_file here, and auth_opt_acl_file is acl_file. Users of its other back ends can be kept by dynamic security, or be asked for by martlet_http_auth_url."#,
                #"Warning: m.conf:4: auth_opt_password_file: that is "password_file /p" here. Its hashes have another form: set each password anew with martlet passwd FILE USER."#,
                #"Warning: m.conf:5: auth_opt_acl_file: that is "acl_file /a" here."#,
            ])
    }
}
