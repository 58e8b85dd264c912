internal import BrokerModel
internal import JSON

/// All schemas of the API's description, by their names: what answers have comes from the resources, what bodies and
/// lists have stands here.
enum SchemaCatalogue {
    typealias Entry = (name: String, schema: Schema)

    /// Made anew each time: what is asked for often is kept where it is needed.
    static var all: [Entry] { basics + clients + topics + broker + commands + traces + files + access + bridges + bans }

    /// The members that a body may have, by its schema's name, in the order in which errors list them.
    static let bodyMembers: [String: [String]] = {
        let bodies = Set(Route.table.compactMap(\.body))
        return Dictionary(uniqueKeysWithValues: all.filter { bodies.contains($0.name) }.map { ($0.name, $0.schema.memberNames) })
    }()

    private static func of<Row>(_ resource: Resource<Row>) -> Entry { (resource.name ?? "", resource.schema) }

    /// What lists answer: rows, what a list has besides, and where the next page begins.
    private static func page(of row: String, saying words: String? = nil, _ more: [Schema.Member] = []) -> Schema {
        .object(
            [Schema.Member("data", .list(.named(row)).described(words))] + more + [Schema.Member("meta", .named("Meta"))])
    }

    // MARK: By chapter

    private static var basics: [Entry] {
        [
            (
                "AddressOrNetwork",
                .text(1...Int.max).with(
                    "anyOf",
                    .array([
                        .object(JSONMembers([("format", .string("ipv4"))])), .object(JSONMembers([("format", .string("ipv6"))])),
                        .object(
                            JSONMembers([
                                (
                                    "pattern",
                                    .string(
                                        #"^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])/(3[0-2]|[12]?[0-9])$"#
                                    )
                                )
                            ])),
                        .object(
                            JSONMembers([
                                (
                                    "pattern",
                                    .string(
                                        """
                                        ^[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$
                                        """)
                                )
                            ])),
                        .object(JSONMembers([("pattern", .string("^([0-9a-f]{1,4}:){1,6}:/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$"))])),
                    ]))
            ),
            ("TopicName", .text(1...65535, pattern: #"^[^+#\u0000]+$"#).described("At most 65,535 bytes of UTF-8.")),
            ("TopicOfQuery", .text(1...4096, pattern: #"^[^+#\u0000]+$"#)),
            ("FilterOfQuery", .text(1...4096, pattern: #"^(([^/+#\u0000]*|\+)/)*([^/+#\u0000]*|\+|#)$"#)),
            ("Text", .text(0...65535, pattern: #"^[^\u0000]*$"#).described("At most 65,535 bytes of UTF-8.")),
            ("Time", .text(format: "date-time").described("RFC 3339 in UTC with milliseconds.")),
            (
                "Error",
                .object([
                    .init("code", .text.described("What went wrong, for programs: the words of the status in capitals.")),
                    .init("message", .text.described("What went wrong, for people.")),
                ])
            ),
            (
                "Meta",
                .object([
                    .init("cursor", .text.orNull.described("What to give as `cursor` for the next page; null at the end.")),
                    .init("count", .count.orNull.described("How many there are in all; null where counting would cost something.")),
                    .init("as_of", .named("Time")),
                    .optional(
                        "missing_nodes",
                        .list(.text).described(
                            """
                            With `cluster`: the nodes that have not answered, whose rows are not here.
                            """)),
                ])
            ),
            of(ClientAnswers.dropCountsResource),
            ("QoS", .integer(0...2)),
        ]
    }

    private static var clients: [Entry] {
        [
            of(ClientAnswers.clientResource),
            of(ClientAnswers.willResource),
            of(ClientAnswers.clientDetailResource),
            ("Clients", page(of: "Client")),
            of(ClientAnswers.subscriptionResource),
            ("Subscriptions", page(of: "Subscription")),
            of(ClientAnswers.queuedMessageResource),
            (
                "Queue",
                page(
                    of: "QueuedMessage",
                    [
                        .init(
                            "on_disk",
                            .count.described(
                                """
                                How many messages wait behind all that can be listed: only the store has them, and they are read when their \
                                turn comes near.
                                """))
                    ])
            ),
            (
                "Inflight",
                page(
                    of: "QueuedMessage", saying: "Those that were sent.",
                    [
                        .init(
                            "received",
                            .list(.integer(1...65535)).described(
                                """
                                Packet identifiers of QoS 2 messages that were received and are not released.
                                """))
                    ])
            ),
            of(TopicAnswers.closedConnectionResource),
            ("ClosedConnections", page(of: "ClosedConnection")),
            of(TopicAnswers.dropResource),
            (
                "Drops",
                page(
                    of: "Drop",
                    [
                        .init(
                            "by_prefix",
                            .list(TopicAnswers.prefixDropsResource.schema).described(
                                """
                                By the first two levels of the topic, most first; null for all others.
                                """)),
                        .init("by_listener", .list(TopicAnswers.listenerDropsResource.schema)),
                    ])
            ),
        ]
    }

    private static var topics: [Entry] {
        [
            of(TopicAnswers.topicLevelResource),
            ("TopicTree", page(of: "TopicLevel")),
            of(TopicAnswers.retainedResource),
            ("RetainedMessages", page(of: "RetainedMessage")),
            (
                "Properties",
                .object([
                    .optional("payload_format_indicator", .number(of: [0, 1])),
                    .optional("message_expiry_interval", .integer(0...4294967295)),
                    .optional("response_topic", .named("TopicName")),
                    .optional("correlation_data", .text(format: "byte").described("Base64, of at most 65,535 bytes.")),
                    .optional("content_type", .named("Text")),
                    .optional(
                        "user_properties",
                        .list(
                            .object([
                                .init("name", .named("Text")),
                                .init("value", .named("Text")),
                            ])
                        ).with("maxItems", .integer(64))),
                ])
            ),
            of(TopicAnswers.retainedContentResource),
            (
                "Removed",
                .object([
                    .init("removed", .count.described("How many went, or would go."))
                ])
            ),
        ]
    }

    private static var broker: [Entry] {
        [
            of(BrokerAnswers.certificateResource),
            of(BrokerAnswers.listenerResource),
            (
                "Listeners",
                .object([
                    .init("data", .list(.named("Listener")))
                ])
            ),
            of(BrokerAnswers.loopResource),
            (
                "DrainRequest",
                .object([
                    .optional(
                        "server_reference",
                        .text(1...1024, pattern: #"^[^\u0000]+$"#).described(
                            """
                            The server that MQTT 5.0 clients are sent to, with 0x9C (Use another server); without it they get 0x8B \
                            (Server shutting down).
                            """)),
                    .optional(
                        "per_second",
                        .integer(1...1000000).defaulting(to: .integer(1000)).described("Clients that are disconnected in a second.")
                    ),
                    .optional(
                        "stop", .boolean.defaulting(to: .boolean(false)).described("Whether the broker ends when all have gone.")),
                ])
            ),
            of(Administration.drainResource),
            of(Administration.clusterInShortResource),
            of(Administration.nodeResource),
            of(Administration.clusterResource),
            of(BrokerAnswers.brokerResource),
            ("Series", .choice(Series.names)),
            (
                "Statistics",
                .object([
                    .init("at", .named("Time")),
                    .init(
                        "totals",
                        .dictionary(.count).described(
                            """
                            Counters since the start, by name: received_messages, sent_messages, dropped, ...
                            """)),
                    .init("dropped", .named("DropCounts")),
                    .init(
                        "now",
                        .dictionary(.number.orNull).described(
                            """
                            The newest value of each series of the history; null where there is none yet.
                            """)),
                ])
            ),
            (
                "History",
                .object([
                    .init("step", .number(of: [1, 60])),
                    .init("from", .named("Time").orNull.described("Time of the first value; null while there is none.")),
                    .init(
                        "series",
                        .dictionary(.list(.number.orNull)).described("Values by series, oldest first, all of the same number.")),
                ])
            ),
            of(BrokerAnswers.configurationOptionResource),
            of(BrokerAnswers.configurationResource),
            of(BrokerAnswers.findingResource),
            of(BrokerAnswers.findingsResource),
        ]
    }

    private static var commands: [Entry] {
        [
            (
                "Publication",
                .object([
                    .init("topic", .named("TopicName").with("not", .object(JSONMembers([("pattern", .string(#"^\$SYS/"#))])))),
                    .optional("payload", .text),
                    .optional("payload_encoding", .choice(["plain", "base64"]).defaulting(to: .string("plain"))),
                    .optional("qos", .integer(0...2).defaulting(to: .integer(0))),
                    .optional("retain", .boolean.defaulting(to: .boolean(false))),
                    .optional("properties", .named("Properties")),
                ]).with(
                    "if",
                    .object(
                        JSONMembers([
                            (
                                "properties",
                                .object(JSONMembers([("payload_encoding", .object(JSONMembers([("const", .string("base64"))])))]))
                            ), ("required", .array([.string("payload_encoding")])),
                        ]))
                ).with(
                    "then",
                    .object(
                        JSONMembers([
                            ("properties", .object(JSONMembers([("payload", .object(JSONMembers([("format", .string("byte"))])))])))
                        ])))
            ),
            (
                "Published",
                .object([
                    .init("reason_code", .count),
                    .init("matched", .count.orNull.described("How many subscriptions it was for; null if they were not counted.")),
                ])
            ),
            of(Administration.topicMetricResource),
            ("TopicMetrics", page(of: "TopicMetric")),
            (
                "PlainFilter",
                .text(1...65535, pattern: #"^(([^/+#\u0000]*|\+)/)*([^/+#\u0000]*|\+|#)$"#).with(
                    "not", .object(JSONMembers([("pattern", .string(#"^\$share/"#))]))
                ).described("A topic filter; no shared one.")
            ),
            (
                "NewTopicMetric",
                .object([
                    .init("filter", .named("PlainFilter"))
                ])
            ),
        ]
    }

    private static var traces: [Entry] {
        [
            (
                "NewTrace",
                .object([
                    .optional("clientid", .text(1...65535, pattern: #"^[^\u0000]+$"#)),
                    .optional("topic", .named("PlainFilter")),
                    .optional("address", .named("AddressOrNetwork")),
                    .optional("until", .named("Time").described("In ten minutes if it is left out; at most in 24 hours.")),
                    .optional("payload", .choice(Trace.Payload.allCases.map(\.rawValue)).defaulting(to: .string("none"))),
                    .optional("payload_limit", .integer(0...16384).defaulting(to: .integer(1024))),
                ]).with(
                    "oneOf",
                    .array([
                        .object(JSONMembers([("required", .array([.string("clientid")]))])),
                        .object(JSONMembers([("required", .array([.string("topic")]))])),
                        .object(JSONMembers([("required", .array([.string("address")]))])),
                    ]))
            ),
            of(Trace.resource),
            ("Traces", page(of: "Trace")),
            (
                "TraceLine",
                TraceLine.schema.open.described(
                    """
                    A packet, what has become of a message, or what else has happened. It has the members that its type has a \
                    use for.
                    """)
            ),
            of(Administration.connectedEvent),
            of(Administration.disconnectedEvent),
            of(Administration.refusedEvent),
            of(Administration.subscribedEvent),
            of(Administration.droppedEvent),
            of(Administration.slowClientEvent),
            of(BrokerAnswers.logLineResource),
            ("LogType", .choice(LogTopics.named.map(\.name))),
            (
                "LogLines",
                .object([
                    .init("data", .list(.named("LogLine")))
                ])
            ),
            (
                "LogTypes",
                .object([
                    .init("types", .list(.named("LogType")).with("uniqueItems", .boolean(true)))
                ])
            ),
        ]
    }

    private static var files: [Entry] {
        [
            (
                "FileUsers",
                .object([
                    .init("data", .list(FileAnswers.fileUserResource.schema)),
                    .init("files", .list(.named("SecurityFile"))),
                ])
            ),
            of(FileAnswers.securityFileResource),
            (
                "NewFileUser",
                .object([
                    .init("username", .named("NewFileUserName")),
                    .init("password", .text(1...65535)),
                    .optional("file", .text.described("Which file, where there are several.")),
                ])
            ),
            (
                "NewFileUserName",
                .text(0...65535, pattern: #"^[^\u0000\u0009-\u000d #:]([^\u0000\u000a\u000d:]*[^\u0000\u0009-\u000d :])?$"#)
                    .described(
                        """
                        1 to 65,535 bytes of UTF-8; it neither begins nor ends with a blank.
                        """)
            ),
            (
                "FileUserPassword",
                .object([
                    .init("password", .text(1...65535)),
                    .optional("file", .text),
                ])
            ),
            (
                "FileUserChanged",
                .object([
                    .init("username", .text),
                    .init("file", .text),
                ])
            ),
            (
                "FileRules",
                .object([
                    .init("data", .list(FileAnswers.fileRuleResource.schema)),
                    .init("files", .list(.named("SecurityFile"))),
                ])
            ),
            ("RuleFor", .choice(["user", "anonymous", "everybody"]).described("everybody: a pattern.")),
            ("RuleAccess", .choice(AdministeredFiles.accesses)),
            (
                "RuleConditions",
                .text(
                    0...Limits.textParameterBytesMax,
                    pattern:
                        #"^((qos(<=|=)[0-2]|retain=(yes|no)|from=[0-9A-Fa-f:./]+)(,(qos(<=|=)[0-2]|retain=(yes|no)|from=[0-9A-Fa-f:./]+))*)?$"#
                ).described(
                    """
                    What the rule asks beside the topic, with commas between: qos=0, qos=1, qos=2, qos<=1, retain=yes and retain=no of \
                    what is published, and from=ADDRESS or from=NETWORK, of which one is enough.
                    """)
            ),
            (
                "RuleTopic",
                .text(1...65535, pattern: #"^(([^/+#\u0000\u000a\u000d]*|\+)/)*([^/+#\u0000\u000a\u000d]*|\+|#)$"#).with(
                    "not", .object(JSONMembers([("pattern", .string(#"^[\u0009-\u000d ]|[\u0009-\u000d ]$"#))]))
                ).described(
                    """
                    A topic filter of at most 65,535 bytes of UTF-8; it neither begins nor ends with a blank.
                    """)
            ),
            (
                "RuleUserName",
                .text(0...65535, pattern: #"^[^\u0000\u0009-\u000d ]([^\u0000\u000a\u000d]*[^\u0000\u0009-\u000d ])?$"#).described(
                    """
                    1 to 65,535 bytes of UTF-8; it neither begins nor ends with a blank.
                    """)
            ),
            (
                "NewFileRule",
                .one(of: [
                    .object([
                        .init("for", .choice(["user"])),
                        .init("username", .named("RuleUserName")),
                        .init("access", .named("RuleAccess")),
                        .optional("conditions", .named("RuleConditions")),
                        .init("topic", .named("RuleTopic")),
                        .optional("file", .text.described("Which file, where there are several.")),
                    ]),
                    .object([
                        .init("for", .choice(["anonymous", "everybody"]).described("everybody: a pattern.")),
                        .init("access", .named("RuleAccess")),
                        .optional("conditions", .named("RuleConditions")),
                        .init("topic", .named("RuleTopic")),
                        .optional("file", .text.described("Which file, where there are several.")),
                    ]),
                ]).described("A user's rule names the user, and no other rule does.")
            ),
            (
                "FileRuleChange",
                .object([
                    .init("text", .text(1...65535).described("The line as it stands: another one is not changed.")),
                    .init("access", .named("RuleAccess")),
                    .optional("conditions", .named("RuleConditions")),
                    .init("topic", .named("RuleTopic")),
                    .optional("file", .text),
                ])
            ),
            (
                "FileRuleChanged",
                .object([
                    .init("file", .text),
                    .init("line", .anyInteger.orNull),
                ])
            ),
            of(FileAnswers.mayResource),
            (
                "LoginTrial",
                .object([
                    .optional("username", .text.described("As CONNECT would give it.")),
                    .optional("password", .text(0...65535)),
                    .optional("clientid", .text.described("The Client Identifier.")),
                    .optional("address", .text.described("Where the client comes from.")),
                    .optional(
                        "action", .choice(AccessAction.allCases.map(\.rawValue)).described("What it would do when it is in.")),
                    .optional("topic", .text.described("Which topic with; of a subscription a filter.")),
                    .optional("qos", .integer(0...2).described("Of the message or subscription; else any.")),
                    .optional("retain", .boolean.described("Whether the message is retained; else either.")),
                    .optional(
                        "certificate",
                        .text(0...65535).described(
                            "The client's certificate, whoever has signed it: a PEM file, or the Base64 that stands in it.")),
                    .optional("listener", .text.described("The name of a listener, as listener 1883; else the first for MQTT.")),
                ])
            ),
            of(LoginAnswers.resource),
            (
                "SecurityCommands",
                .object([
                    .init("commands", .list(.object([.init("command", .text)]).open))
                ])
            ),
            (
                "SecurityResponses",
                .object([
                    .optional(
                        "responses",
                        .list(
                            .object([
                                .init("command", .text),
                                .optional("data", Schema([("type", .string("object"))])),
                                .optional("error", .text),
                                .optional("correlationData", .text),
                            ]).open))
                ]).open
            ),
        ]
    }

    private static var access: [Entry] {
        [
            of(AuditEntry.resource),
            (
                "Audit",
                .object([
                    .init("data", .list(.named("AuditEntry")))
                ])
            ),
            ("Role", .choice(["viewer", "admin", "metrics"])),
            of(AccessAnswers.sessionResource),
            (
                "Credentials",
                .one(of: [
                    .object([
                        .init("username", .text),
                        .init("password", .text),
                    ]),
                    .object([
                        .init(
                            "token",
                            .text(1...65535).described("Of an administrator's one-time link, or one that begins with `mrt_`."))
                    ]),
                ])
            ),
            ("BanKind", .choice(BanKind.allCases.map(\.rawValue))),
        ]
    }

    private static var bridges: [Entry] {
        [
            of(BridgeAnswers.bridgeResource),
            of(BridgeAnswers.bridgeConnectionResource),
            ("BridgeDetail", .object(BridgeAnswers.bridgeDetailMembers.map(\.member))),
            (
                "Bridges",
                page(
                    of: "Bridge",
                    [
                        .init(
                            "kept",
                            .boolean.described(
                                """
                                Whether bridges that are added, and pauses, are kept over a restart: not without persistence.
                                """))
                    ])
            ),
            ("BridgeOptionValue", .any(of: [.text, .list(.text)])),
            (
                "BridgeOption",
                .any(of: [
                    Schema([("type", .array([.string("string"), .string("integer"), .string("boolean"), .string("null")]))]),
                    .list(.text),
                ]).described(
                    """
                    What follows the option on its line; a list for one that may be given more than once. Null and \
                    an empty list remove it.
                    """)
            ),
            (
                "BridgeOptions",
                .dictionary(.named("BridgeOption")).with("minProperties", .integer(1)).described(
                    """
                    Options of a `connection` section by their names; those that are not named stay as they are. See \
                    martlet.conf(5).
                    """)
            ),
            (
                "NewBridge",
                .object([
                    .init(
                        "name", .text(1...255).described("At most 255 bytes, without control characters and blanks at its ends.")),
                    .init("address", .named("BridgeOption")),
                ]).described(
                    """
                    A name, and options of a `connection` section by their names. See martlet.conf(5).
                    """
                ).open(to: .named("BridgeOption"))
            ),
        ]
    }

    private static var bans: [Entry] {
        [
            of(BanAnswers.banResource),
            of(Administration.alarmResource),
            (
                "Alarms",
                page(
                    of: "Alarm",
                    [
                        .init("active", .count.described("How many are raised, whatever is listed."))
                    ])
            ),
            (
                "Bans",
                page(
                    of: "Ban",
                    [
                        .init("kept", .boolean.described("Whether the store keeps them; else they end with the broker."))
                    ])
            ),
            (
                "NewBan",
                .object([
                    .init("as", .named("BanKind")),
                    .init(
                        "who",
                        .text(1...65535, pattern: #"^[^\u0000]+$"#).described(
                            """
                            At most 65,535 bytes of UTF-8; an address, or a network such as 192.0.2.0/24, where `as` asks for one.
                            """)),
                    .optional("reason", .text(0...1024)),
                    .optional("until", .named("Time").orNull.described("In the future; for ever without it.")),
                ])
            ),
            of(AccessAnswers.tokenResource),
            (
                "Tokens",
                .object([
                    .init("data", .list(.named("Token")))
                ])
            ),
            (
                "NewToken",
                .object([
                    .init("name", .text(pattern: "^[A-Za-z0-9._-]{1,64}$")),
                    .init("role", .named("Role")),
                    .optional("expires_at", .named("Time").orNull),
                ])
            ),
            of(AccessAnswers.loginLinkResource),
            ("TokenMade", .object(AccessAnswers.tokenMadeMembers.map(\.member))),
        ]
    }
}
