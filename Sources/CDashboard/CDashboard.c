#include "CDashboard.h"

// Of C23, which clang has in every language mode.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char file_index_html[] = {
#embed "site/index.html"
};
static const unsigned char file_api_js[] = {
#embed "site/api.js"
};
static const unsigned char file_app_js[] = {
#embed "site/app.js"
};
static const unsigned char file_chart_js[] = {
#embed "site/chart.js"
};
static const unsigned char file_dom_js[] = {
#embed "site/dom.js"
};
static const unsigned char file_format_js[] = {
#embed "site/format.js"
};
static const unsigned char file_martlet_svg[] = {
#embed "site/martlet.svg"
};
static const unsigned char file_mqtt_js[] = {
#embed "site/mqtt.js"
};
static const unsigned char file_pages_access_js[] = {
#embed "site/pages/access.js"
};
static const unsigned char file_pages_audit_js[] = {
#embed "site/pages/audit.js"
};
static const unsigned char file_pages_alarms_js[] = {
#embed "site/pages/alarms.js"
};
static const unsigned char file_pages_bans_js[] = {
#embed "site/pages/bans.js"
};
static const unsigned char file_pages_bridges_js[] = {
#embed "site/pages/bridges.js"
};
static const unsigned char file_pages_client_js[] = {
#embed "site/pages/client.js"
};
static const unsigned char file_pages_clients_js[] = {
#embed "site/pages/clients.js"
};
static const unsigned char file_pages_cluster_js[] = {
#embed "site/pages/cluster.js"
};
static const unsigned char file_pages_configuration_js[] = {
#embed "site/pages/configuration.js"
};
static const unsigned char file_pages_listeners_js[] = {
#embed "site/pages/listeners.js"
};
static const unsigned char file_pages_log_js[] = {
#embed "site/pages/log.js"
};
static const unsigned char file_pages_overview_js[] = {
#embed "site/pages/overview.js"
};
static const unsigned char file_pages_publish_js[] = {
#embed "site/pages/publish.js"
};
static const unsigned char file_pages_retained_js[] = {
#embed "site/pages/retained.js"
};
static const unsigned char file_pages_rules_js[] = {
#embed "site/pages/rules.js"
};
static const unsigned char file_pages_topics_js[] = {
#embed "site/pages/topics.js"
};
static const unsigned char file_pages_trace_js[] = {
#embed "site/pages/trace.js"
};
static const unsigned char file_pages_trouble_js[] = {
#embed "site/pages/trouble.js"
};
static const unsigned char file_pages_users_js[] = {
#embed "site/pages/users.js"
};
static const unsigned char file_style_css[] = {
#embed "site/style.css"
};
static const unsigned char file_table_js[] = {
#embed "site/table.js"
};

#define FILE_OF(path, bytes) { path, bytes, sizeof bytes }

static const struct martlet_dashboard_file files[] = {
    FILE_OF("index.html", file_index_html),
    FILE_OF("api.js", file_api_js),
    FILE_OF("app.js", file_app_js),
    FILE_OF("chart.js", file_chart_js),
    FILE_OF("dom.js", file_dom_js),
    FILE_OF("format.js", file_format_js),
    FILE_OF("martlet.svg", file_martlet_svg),
    FILE_OF("mqtt.js", file_mqtt_js),
    FILE_OF("pages/access.js", file_pages_access_js),
    FILE_OF("pages/audit.js", file_pages_audit_js),
    FILE_OF("pages/alarms.js", file_pages_alarms_js),
    FILE_OF("pages/bans.js", file_pages_bans_js),
    FILE_OF("pages/bridges.js", file_pages_bridges_js),
    FILE_OF("pages/client.js", file_pages_client_js),
    FILE_OF("pages/clients.js", file_pages_clients_js),
    FILE_OF("pages/cluster.js", file_pages_cluster_js),
    FILE_OF("pages/configuration.js", file_pages_configuration_js),
    FILE_OF("pages/listeners.js", file_pages_listeners_js),
    FILE_OF("pages/log.js", file_pages_log_js),
    FILE_OF("pages/overview.js", file_pages_overview_js),
    FILE_OF("pages/publish.js", file_pages_publish_js),
    FILE_OF("pages/retained.js", file_pages_retained_js),
    FILE_OF("pages/rules.js", file_pages_rules_js),
    FILE_OF("pages/topics.js", file_pages_topics_js),
    FILE_OF("pages/trace.js", file_pages_trace_js),
    FILE_OF("pages/trouble.js", file_pages_trouble_js),
    FILE_OF("pages/users.js", file_pages_users_js),
    FILE_OF("style.css", file_style_css),
    FILE_OF("table.js", file_table_js),
};

const size_t martlet_dashboard_file_count = sizeof files / sizeof files[0];

const struct martlet_dashboard_file *martlet_dashboard_file_at(size_t index) { return &files[index]; }
