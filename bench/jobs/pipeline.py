import dlt
from dlt.sources.rest_api import rest_api_source

source = rest_api_source({
    "client": {"base_url": "http://127.0.0.1:8790", "paginator": {"type": "header_link"}},
    "resource_defaults": {"write_disposition": "merge"},
    "resources": [
        {
            "name": "repos",
            "primary_key": "full_name",
            "endpoint": {"path": "orgs/org/repos", "params": {"per_page": 100}},
        },
        {
            "name": "issues",
            "primary_key": "id",
            "endpoint": {
                "path": "repos/{resources.repos.full_name}/issues",
                "params": {"state": "all", "sort": "updated", "direction": "asc", "per_page": 100,
                           "since": "{incremental.start_value}"},
                "incremental": {"cursor_path": "updated_at", "initial_value": "2020-01-01T00:00:00Z"},
            },
            "include_from_parent": ["full_name"],
        },
    ],
})
pipeline = dlt.pipeline(
    "github", destination=dlt.destinations.sqlalchemy("sqlite:///github.db"), dataset_name="main")
print(pipeline.run(source))
